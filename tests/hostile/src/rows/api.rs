//! The newer ways to mount, and other doors to the same calls: 32-bit, x32, unknown numbers.

use std::ffi::CStr;
use std::os::fd::AsRawFd as _;

use libc::{c_int, c_long};

use crate::outcome::{Outcome, any_of, first_harm, harm_if_ok, refused, succeeded};
use crate::sandbox::Sandbox;
use crate::sys::{self, Errno, Pages, at, at_mut, negative};

const HERE: usize = negative(libc::AT_FDCWD);
const SYS_OPEN_TREE_ATTR: c_long = 467;
const SYS_LISTMOUNT: c_long = 458;
/// The first number this program has no name for.
const FIRST_UNKNOWN: c_long = 470;

/// fsopen, fsconfig, fsmount, move_mount: as far as it gets.
pub(super) fn filesystem_context(sandbox: &Sandbox, fstype: &CStr) -> Outcome {
    let context = match sys::fd_call(libc::SYS_fsopen, [at(fstype), 0]) {
        Ok(context) => context,
        Err(errno @ Errno(libc::ENOSYS)) => return refused(errno.to_string()),
        // util-linux takes the older way only if this one does not exist; and what exists, a later kernel may grant to more users.
        Err(errno) => return succeeded(format!("fsopen exists inside: {errno}")),
    };
    let fd = context.as_raw_fd() as usize;
    let create = sys::call(libc::SYS_fsconfig, [fd, libc::FSCONFIG_CMD_CREATE as usize, 0, 0, 0]);
    let mount = create.and_then(|_| sys::fd_call(libc::SYS_fsmount, [fd, 0, 0]));
    let moved = mount.and_then(|mount| {
        let empty = libc::MOVE_MOUNT_F_EMPTY_PATH as usize;
        sys::call(libc::SYS_move_mount, [mount.as_raw_fd() as usize, at(c""), HERE, at(&*sandbox.target), empty])
    });
    succeeded(format!("a filesystem context; and at the target: {moved:?}"))
}

pub(super) fn picks_a_superblock() -> Outcome {
    any_of([c"/", c"/proc", c"/dev", c"/tmp"], |path| {
        let answer = sys::fd_call(libc::SYS_fspick, [HERE, at(path), 0]);
        harm_if_ok(answer, format!("a context on the superblock of {}", path.to_string_lossy()))
    })
}

pub(super) fn clones_a_tree() -> Outcome {
    any_of([c"/", c"/proc", c"/usr", c"/proc/1/root"], |path| {
        let flags = libc::OPEN_TREE_CLONE as usize | libc::AT_RECURSIVE as usize;
        harm_if_ok(sys::fd_call(libc::SYS_open_tree, [HERE, at(path), flags]), "a detached copy of the tree")
    })
}

pub(super) fn moves_a_mount(sandbox: &Sandbox) -> Outcome {
    any_of([c"/proc", c"/dev", c"/tmp"], |from| {
        harm_if_ok(sys::call(libc::SYS_move_mount, [HERE, at(from), HERE, at(&*sandbox.target), 0]), "a mount moved to the target")
    })
}

/// struct mount_attr
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

pub(super) fn changes_attributes() -> Outcome {
    let changes = [
        Attributes { set: 0, clear: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV, propagation: 0, userns: 0 },
        Attributes { set: 0, clear: 0, propagation: libc::MS_SHARED, userns: 0 },
    ];
    first_harm(changes.iter().flat_map(|change| {
        [c"/", c"/usr", c"/dev", c"/proc"].map(|path| {
            let words = [HERE, at(path), libc::AT_RECURSIVE as usize, at(change), size_of::<Attributes>()];
            harm_if_ok(sys::call(libc::SYS_mount_setattr, words), "mount attributes changed")
        })
    }))
}

pub(super) fn clones_with_attributes() -> Outcome {
    let change = Attributes { set: 0, clear: libc::MOUNT_ATTR_RDONLY, propagation: 0, userns: 0 };
    let words = [HERE, at(c"/"), libc::OPEN_TREE_CLONE as usize, at(&change), size_of::<Attributes>()];
    harm_if_ok(sys::fd_call(SYS_OPEN_TREE_ATTR, words), "a writable copy of the tree")
}

/// struct mnt_id_req, second version
#[repr(C)]
struct MountRequest {
    size: u32,
    spare: u32,
    mount: u64,
    parameter: u64,
    namespace: u64,
}

const WHOLE_NAMESPACE: u64 = u64::MAX;
const SECOND_VERSION: u32 = 32;

/// Mounts of a namespace that is not ours. The host's has one of the first numbers.
pub(super) fn lists_foreign_mounts() -> Outcome {
    let own = own_namespace();
    let namespaces = (1..200u64).filter(|number| Some(*number) != own);
    any_of(namespaces, |namespace| {
        let request = MountRequest { size: SECOND_VERSION, spare: 0, mount: WHOLE_NAMESPACE, parameter: 0, namespace };
        let mut ids = [0u64; 64];
        let answer = sys::call(SYS_LISTMOUNT, [at(&request), at_mut(&mut ids), ids.len(), 0]);
        harm_if_ok(answer, format!("mounts of namespace {namespace}: {answer:?}"))
    })
}

fn own_namespace() -> Option<u64> {
    const NS_GET_MNTNS_ID: usize = 0x8008_b705;
    let fd = sys::open(c"/proc/self/ns/mnt", libc::O_RDONLY).ok()?;
    let mut id = 0u64;
    sys::call(libc::SYS_ioctl, [fd.as_raw_fd() as usize, NS_GET_MNTNS_ID, at_mut(&mut id)]).ok()?;
    Some(id)
}

pub(super) fn pivots() -> Outcome {
    let pairs = [(c".", c"."), (c"/tmp", c"/tmp"), (c"/", c"/")];
    any_of(pairs, |(new, old)| harm_if_ok(sys::call(libc::SYS_pivot_root, [at(new), at(old)]), "another root"))
}

pub(super) fn changes_root() -> Outcome {
    any_of([c"/tmp", c"/", c"/proc/1/root", c".."], |root| harm_if_ok(sys::call(libc::SYS_chroot, [at(root)]), "another root"))
}

/// Runs in a process of its own, because a kernel without the 32-bit entry answers with a signal.
fn through_int80(number: u32, words: impl Fn(&Pages) -> [u32; 5], harm: impl Fn(i32) -> bool) -> Outcome {
    let Ok(child) = sys::fork() else { return refused("no second process") };
    let Some(child) = child else {
        #[cfg(target_arch = "x86_64")]
        let low = libc::MAP_32BIT;
        #[cfg(not(target_arch = "x86_64"))]
        let low = 0;
        let pages = Pages::map(1, low).expect("a page can be mapped");
        let answer = sys::int80(number, words(&pages));
        sys::exit(if answer.is_some_and(&harm) { 7 } else { answer.map_or(1, |answer| 100 + (-answer).clamp(0, 100)) });
    };
    let status = sys::wait(child, 0).unwrap_or(0);
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 7) => succeeded("the 32-bit call did it"),
        (true, 1) => refused("no such entry on this architecture"),
        (true, code) => refused(format!("32-bit entry: {}", Errno(code - 100))),
        (false, _) => refused(format!("signal {}", libc::WTERMSIG(status))),
    }
}

fn put(pages: &Pages, offset: usize, text: &CStr) -> u32 {
    pages.put(offset, text.to_bytes_with_nul()) as u32
}

const I386_GETPID: u32 = 20;
const I386_MOUNT: u32 = 21;
const I386_UNSHARE: u32 = 310;
const I386_FSOPEN: u32 = 430;

pub(super) fn enters_as_32_bit() -> Outcome {
    // The answer is compared in the child itself.
    through_int80(I386_GETPID, |_| [0; 5], |answer| answer == sys::pid())
}

pub(super) fn mounts_as_32_bit(sandbox: &Sandbox) -> Outcome {
    any_of([c"tmpfs", c"proc"], |fstype| {
        let words = |pages: &Pages| {
            let target = if fstype == c"tmpfs" { c"/tmp" } else { &*sandbox.target };
            [put(pages, 0, c"hostile"), put(pages, 64, target), put(pages, 2048, fstype), 0, 0]
        };
        through_int80(I386_MOUNT, words, |answer| answer == 0)
    })
}

pub(super) fn unshares_as_32_bit() -> Outcome {
    let flags = [libc::CLONE_NEWUSER, libc::CLONE_NEWNS];
    any_of(flags, |flag| through_int80(I386_UNSHARE, |_| [flag as u32, 0, 0, 0, 0], |answer| answer == 0))
}

pub(super) fn opens_context_as_32_bit() -> Outcome {
    through_int80(I386_FSOPEN, |pages| [put(pages, 0, c"tmpfs"), 0, 0, 0, 0], |answer| answer >= 0)
}

const X32: c_long = 0x4000_0000;

pub(super) fn mounts_as_x32(sandbox: &Sandbox) -> Outcome {
    let words = [at(c"hostile"), at(&*sandbox.target), at(c"proc"), 0, 0];
    let usr = [at(c"hostile"), at(c"/usr"), at(c"tmpfs"), 0, 0];
    any_of([words, usr], |words| harm_if_ok(sys::call(X32 | libc::SYS_mount, words), "mounted through an x32 number"))
}

pub(super) fn calls_as_x32() -> Outcome {
    let calls = [(libc::SYS_getpid, 0), (libc::SYS_unshare, libc::CLONE_NEWUSER as usize)];
    any_of(calls, |(number, word)| harm_if_ok(sys::call(X32 | number, [word]), "an x32 call was done"))
}

/// Calls that a newer kernel has there have not been reviewed.
pub(super) fn calls_unknown_numbers() -> Outcome {
    let numbers = (FIRST_UNKNOWN..512).chain(548..1100).chain([4095, 65535, c_long::from(c_int::MAX), -2]);
    any_of(numbers, |number| match sys::call(number, []) {
        Err(Errno(libc::ENOSYS)) => refused("ENOSYS"),
        answer => succeeded(format!("call {number} is there: {answer:?}")),
    })
}
