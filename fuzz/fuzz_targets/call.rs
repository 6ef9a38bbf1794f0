//! A hostile client's mount(2) against the policy. Whatever it sends, an accepted order is one that the definition allows.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use rustix::mount::MountAttrFlags;
use shorefast_broker::call::MountCall;
use shorefast_broker::policy::{Options, Order, Owner, SourceAlias};
use shorefast_broker::{Policy, flags};

/// The definition's side, from types that clients really have.
#[derive(Arbitrary, Debug)]
struct Rules {
    fuse: bool,
    one_fuse_type: bool,
    tmpfs: bool,
    nfs: bool,
    caller_flags: u32,
    alias: bool,
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    rules: Rules,
    flags: u64,
    fstype: &'a str,
    source: &'a [u8],
    data: &'a [u8],
}

const OWNER: Owner = Owner { uid: 1000, gid: 1001 };
const ONE_FUSE_TYPE: &str = "fuse.sshfs";

/// No new mount: each of these acts on a mount that is already there.
const OPERATIONS: u64 = libc::MS_REMOUNT
    | libc::MS_BIND
    | libc::MS_MOVE
    | libc::MS_REC
    | libc::MS_UNBINDABLE
    | libc::MS_PRIVATE
    | libc::MS_SLAVE
    | libc::MS_SHARED;

/// All that FUSE in the kernel may be told.
const FUSE_KEYS: &[&str] = &["rootmode", "max_read", "blksize", "default_permissions", "allow_other", "user_id", "group_id"];

fuzz_target!(|input: Input<'_>| {
    let policy = policy(&input.rules);
    let call = MountCall {
        source: input.source.to_vec(),
        target: b"/mnt".to_vec(),
        fstype: input.fstype.to_owned(),
        flags: input.flags,
        data: input.data.to_vec(),
    };
    let translated = flags::translate(call.flags);
    if let Ok(flags) = &translated {
        assert_eq!(flags::translate(flags.word()).as_ref(), Ok(flags), "a flag word does not survive the way back");
    }
    if let Ok(order) = policy.judge(&call) {
        assert!(translated.is_ok(), "accepted flags that cannot be translated");
        check_flags(&call, &policy, &order);
        check_type(&call, &policy, &order);
        check_options(&order);
        check_source(&call, &policy, &order);
    }
});

fn policy(rules: &Rules) -> Policy {
    let types = [(rules.fuse, "fuse"), (rules.one_fuse_type, ONE_FUSE_TYPE), (rules.tmpfs, "tmpfs"), (rules.nfs, "nfs4")];
    Policy {
        kernel_types: types.iter().filter(|(allowed, _)| *allowed).map(|(_, name)| (*name).to_owned()).collect(),
        mounts: 1,
        flags: rules.caller_flags.into(),
        owner: OWNER,
        services: Vec::new(),
        source_seen_as: rules.alias.then(|| SourceAlias { inside: b"/shorefast/source".to_vec(), outside: b"/srv/data".to_vec() }),
        asked: Default::default(),
        kernel_options: Vec::new(),
    }
}

fn check_flags(call: &MountCall, policy: &Policy, order: &Order) {
    let always = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    assert!(order.flags.attributes.contains(always), "a mount with set-uid programs or devices");
    assert_eq!(order.flags.word() & OPERATIONS, 0, "an operation on another mount");
    assert_eq!(low(call.flags) & OPERATIONS, 0, "an operation on another mount was taken for a new one");
    let kept = libc::MS_RDONLY | libc::MS_NOEXEC | libc::MS_SYNCHRONOUS | libc::MS_DIRSYNC;
    let asked = low(call.flags) | low(policy.flags);
    assert_eq!(order.flags.word() & kept, asked & kept, "a flag was lost or made up");
    let rules = MountAttrFlags::MOUNT_ATTR_NOATIME | MountAttrFlags::MOUNT_ATTR_STRICTATIME;
    let both = order.flags.attributes.contains(rules);
    assert!(!both || both_in_one(call.flags) || both_in_one(policy.flags), "two access-time rules from two sides");
}

/// Nonsense that one side asked for by itself; the kernel refuses it.
fn both_in_one(word: u64) -> bool {
    let both = libc::MS_NOATIME | libc::MS_STRICTATIME;
    low(word) & both == both
}

/// Without the magic number that the kernel drops.
fn low(word: u64) -> u64 {
    if word & 0xffff_0000 == 0xc0ed_0000 { word & !0xffff_0000 } else { word }
}

fn check_type(call: &MountCall, policy: &Policy, order: &Order) {
    assert_eq!(order.full_type(), call.fstype, "another type than the client asked for");
    let allowed = |name: &str| policy.kernel_types.iter().any(|allowed| allowed == name);
    let base = order.fstype.as_str();
    assert!(matches!(base, "fuse" | "tmpfs" | "nfs4"), "type {base:?} is in no definition");
    match order.subtype.as_deref() {
        None => assert!(allowed(base), "type {base:?} is not in kernel_types"),
        Some(subtype) => {
            assert!(base == "fuse" && (allowed("fuse") || call.fstype == ONE_FUSE_TYPE && allowed(ONE_FUSE_TYPE)));
            assert!(!subtype.is_empty() && !subtype.contains([' ', ',', '\n', '\\', '\0']), "a subtype that breaks the mount table");
        }
    }
}

fn check_options(order: &Order) {
    let is_fuse = order.fstype == "fuse";
    assert_eq!(is_fuse, order.is_fuse());
    let Options::Fuse(fuse) = &order.options else { return };
    for item in &fuse.rest {
        let key = item.key.as_str();
        assert!(FUSE_KEYS.contains(&key), "unknown FUSE option {key:?}");
        assert_eq!(fuse.rest.iter().filter(|other| other.key == key).count(), 1, "{key} twice");
    }
    let value = |key| fuse.rest.iter().find(|item| item.key == key).and_then(|item| item.value.as_deref()).and_then(|value| std::str::from_utf8(value).ok());
    assert_eq!((value("user_id"), value("group_id")), (Some("1000"), Some("1001")), "an owner of the client's choice");
    let mode = value("rootmode").map(|mode| u32::from_str_radix(mode, 8));
    assert!(mode.is_none_or(|mode| mode.is_ok_and(|mode| mode & libc::S_IFMT == libc::S_IFDIR)), "a root that is no directory");
}

fn check_source(call: &MountCall, policy: &Policy, order: &Order) {
    match &policy.source_seen_as {
        Some(alias) if call.source == alias.inside => assert_eq!(order.source, alias.outside),
        _ => assert_eq!(order.source, call.source),
    }
}
