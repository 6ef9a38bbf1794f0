//! mount(2) and umount2(2) with arguments that the policy must refuse: types, targets, flags, strings, options, descriptors.

use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;

use libc::c_ulong;

use crate::fuse;
use crate::outcome::{Outcome, any_of, first_harm, harm_if_ok, refused, succeeded};
use crate::sandbox::{SCRATCH, Sandbox, c_path, mount, mount_words, scratch_dir, umount};
use crate::sys::{self, PAGE, Pages, at};

/// A type that the client may not mount, at the target where it may mount.
pub(super) fn of_type(sandbox: &Sandbox, fstype: &CStr, source: &CStr, data: &CStr) -> Outcome {
    let what = format!("a {} filesystem at the target", fstype.to_string_lossy().escape_debug());
    harm_if_ok(mount(source, &sandbox.target, fstype, 0, data), what)
}

pub(super) fn of_types(sandbox: &Sandbox, fstypes: &[&CStr]) -> Outcome {
    any_of(fstypes.iter(), |fstype| of_type(sandbox, fstype, c"none", c""))
}

/// Each as if the machine's disk were there, and on anything that looks like a disk.
pub(super) fn of_disk_types(sandbox: &Sandbox, fstypes: &[&CStr]) -> Outcome {
    let disks = [c"/dev/vda", c"/dev/sda", c"/dev/loop0", c"none"];
    let pairs = fstypes.iter().flat_map(|fstype| disks.map(|disk| (fstype, disk)));
    any_of(pairs, |(fstype, disk)| of_type(sandbox, fstype, disk, c""))
}

pub(super) fn overlay(sandbox: &Sandbox) -> Outcome {
    let work = scratch_dir("overlay");
    for name in ["upper", "work"] {
        fs::create_dir_all(work.join(name)).expect("scratch is writable");
    }
    let data = c_path(format!("lowerdir=/,upperdir={0}/upper,workdir={0}/work", work.display()));
    any_of([c"lowerdir=/etc:/usr", &*data], |data| of_type(sandbox, c"overlay", c"overlay", data))
}

/// An allowed type at a place that is not the target.
pub(super) fn onto(target: impl AsRef<Path>) -> Outcome {
    let target = target.as_ref();
    harm_if_ok(mount(c"hostile", &c_path(target), c"tmpfs", 0, c""), format!("a tmpfs at {}", target.display()))
}

pub(super) fn onto_each(targets: &[&str]) -> Outcome {
    any_of(targets.iter(), onto)
}

/// `target` is relative to `cwd`.
pub(super) fn onto_relative(cwd: &str, target: &str) -> Outcome {
    match std::env::set_current_dir(cwd) {
        Ok(()) => onto(target),
        Err(error) => refused(format!("cannot go to {cwd}: {error}")),
    }
}

pub(super) fn through_symlink(to: &str) -> Outcome {
    let link = scratch_dir("link").join("target");
    symlink(to, &link).expect("scratch is writable");
    onto(link)
}

/// A chain of links that ends in the machine's own view of things.
pub(super) fn through_magic_link(to: &str) -> Outcome {
    first_harm([
        onto(format!("/proc/self/root{to}")),
        onto(format!("/proc/thread-self/root{to}")),
        onto(format!("/proc/1/root{to}")),
        onto(format!("/proc/self/task/{}/root{to}", sys::pid())),
    ])
}

pub(super) fn through_descriptor(sandbox: &Sandbox) -> Outcome {
    let name = sandbox.target_path().file_name().unwrap_or_default();
    let double = scratch_dir("double").join(name);
    fs::create_dir_all(&double).expect("scratch is writable");
    any_of(["/usr", "/", double.to_str().unwrap_or(SCRATCH)], |place| match sys::open(&c_path(place), libc::O_PATH | libc::O_DIRECTORY) {
        Ok(fd) => onto(format!("/proc/self/fd/{}", fd.as_raw_fd())),
        Err(errno) => refused(format!("open {place}: {errno}")),
    })
}

pub(super) fn beside_the_target(sandbox: &Sandbox) -> Outcome {
    let parent = sandbox.target_path().parent().unwrap_or(Path::new("/"));
    first_harm([onto(parent), onto(sandbox.target_path().join("..")), onto(parent.join("hostile-sibling"))])
}

pub(super) fn below_the_target(sandbox: &Sandbox) -> Outcome {
    let below = sandbox.target_path().join("below");
    let made = fs::create_dir(&below);
    let outcome = onto(&below);
    let _ = fs::remove_dir(&below);
    match (made, outcome) {
        (Err(error), Outcome::Refused(how)) => refused(format!("mkdir: {error}; mount: {how}")),
        (_, outcome) => outcome,
    }
}

pub(super) fn same_name_elsewhere(sandbox: &Sandbox) -> Outcome {
    let name = sandbox.target_path().file_name().unwrap_or_default();
    let double = scratch_dir("double").join(name);
    fs::create_dir_all(&double).expect("scratch is writable");
    first_harm([onto(&double), {
        std::env::set_current_dir(double.parent().expect("it has one")).expect("it was just made");
        onto(name)
    }])
}

pub(super) fn deleted_directory() -> Outcome {
    let dir = scratch_dir("deleted");
    let fd = sys::open(&c_path(&dir), libc::O_PATH | libc::O_DIRECTORY).expect("it was just made");
    std::env::set_current_dir(&dir).expect("it was just made");
    fs::remove_dir(&dir).expect("it is empty");
    first_harm([onto("."), onto(format!("/proc/self/fd/{}", fd.as_raw_fd())), onto("/proc/self/cwd")])
}

/// The target's name, but it is another directory when it is looked up from the client's point of view.
pub(super) fn moved_target(sandbox: &Sandbox) -> Outcome {
    let target = sandbox.target_path();
    let aside = target.with_file_name("hostile-aside");
    if let Err(error) = fs::rename(target, &aside) {
        return refused(format!("the target cannot be moved: {error}"));
    }
    let _ = symlink("/usr", target);
    let outcome = onto(target);
    let _ = fs::remove_file(target);
    let _ = fs::rename(&aside, target);
    outcome
}

pub(super) fn not_a_directory() -> Outcome {
    let file = scratch_dir("file").join("file");
    fs::write(&file, "").expect("scratch is writable");
    first_harm([onto(file), onto("/dev/null"), onto("/dev/fuse"), onto("/proc/self/exe"), onto("/etc/passwd"), onto("")])
}

/// An allowed type at the allowed target, with flags that change what mount(2) does.
pub(super) fn with_flags(sandbox: &Sandbox, flags: c_ulong) -> Outcome {
    any_of([c"tmpfs", c""], |fstype| {
        let answer = mount(c"/etc", &sandbox.target, fstype, flags, c"");
        harm_if_ok(answer, format!("mount with flags {flags:#x} was accepted"))
    })
}

/// Flags each by itself, with every allowed type.
pub(super) fn with_each_flag(sandbox: &Sandbox, flags: impl IntoIterator<Item = c_ulong>) -> Outcome {
    any_of(flags, |flag| with_flags(sandbox, flag))
}

/// Flags on places that are there already, where there is nothing to mount.
pub(super) fn change(targets: &[&str], flags: c_ulong) -> Outcome {
    any_of(targets.iter(), |target| {
        let answer = mount(c"none", &c_path(target), c"", flags, c"");
        harm_if_ok(answer, format!("{target} changed with flags {flags:#x}"))
    })
}

/// What is already somewhere in sight, put at the target.
pub(super) fn reuse(sandbox: &Sandbox, sources: &[&str], flags: c_ulong) -> Outcome {
    any_of(sources.iter(), |source| {
        let answer = mount(&c_path(source), &sandbox.target, c"tmpfs", flags, c"");
        harm_if_ok(answer, format!("{source} at the target"))
    })
}

/// Which of mount's strings a row abuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Source,
    Target,
    Type,
}

/// The proper mount with one string replaced by the address `word`.
fn with_word(sandbox: &Sandbox, part: Part, word: usize) -> Outcome {
    let pick = |mine: Part, proper: &CStr| if part == mine { word } else { at(proper) };
    let source = pick(Part::Source, c"hostile");
    let target = pick(Part::Target, &sandbox.target);
    let fstype = pick(Part::Type, c"tmpfs");
    harm_if_ok(mount_words([source, target, fstype, 0, 0]), format!("mounted with {part:?} at {word:#x}"))
}

/// Addresses where nothing can be read: unmapped, beyond user space, not canonical.
pub(super) fn bad_addresses(sandbox: &Sandbox) -> Outcome {
    let hole = Pages::map(1, 0).expect("a page can be mapped");
    let addresses = [1, hole.end(), usize::MAX, usize::MAX - PAGE, 1 << 47, 0xffff_8000_0000_0000, 0x8000_0000_0000_0000];
    let parts = [Part::Source, Part::Target, Part::Type];
    let mut outcomes: Vec<Outcome> = parts.iter().flat_map(|part| addresses.map(|word| with_word(sandbox, *part, word))).collect();
    outcomes.extend(addresses.map(|word| {
        let words = [at(c"hostile"), at(&*sandbox.target), at(c"tmpfs"), 0, word];
        harm_if_ok(mount_words(words), format!("mounted with options at {word:#x}"))
    }));
    first_harm(outcomes)
}

pub(super) fn null(sandbox: &Sandbox, part: Part) -> Outcome {
    with_word(sandbox, part, 0)
}

/// A string whose last byte is the last of its page, with no terminator and nothing mapped behind it.
pub(super) fn unterminated(sandbox: &Sandbox, part: Part, text: &CStr) -> Outcome {
    let pages = Pages::map(1, 0).expect("a page can be mapped");
    with_word(sandbox, part, pages.put_at_end(text.to_bytes()))
}

/// Strings longer than the kernel takes, from one over the limit to a megabyte.
pub(super) fn too_long(sandbox: &Sandbox, part: Part) -> Outcome {
    any_of([PAGE, PAGE + 1, 5000, 65536, 1 << 20], |length| {
        let text = CString::new(vec![b'a'; length]).expect("it holds no NUL");
        with_word(sandbox, part, at(&*text))
    })
}

/// The target's own name made long with `/./././`, beyond what the kernel resolves.
pub(super) fn too_long_spelling(sandbox: &Sandbox) -> Outcome {
    let text = [sandbox.target.to_bytes(), &b"/.".repeat(3000)].concat();
    with_word(sandbox, Part::Target, at(&*CString::new(text).expect("it holds no NUL")))
}

/// Options that reach for more than an option may.
pub(super) fn with_options(sandbox: &Sandbox, options: &[&CStr]) -> Outcome {
    any_of(options.iter(), |data| {
        let text = data.to_string_lossy();
        let answer = mount(c"hostile", &sandbox.target, c"tmpfs", 0, data);
        harm_if_ok(answer, format!("mounted with {}", text.escape_debug()))
    })
}

/// Set-user-id and devices asked for in the options and by clearing the flags: the mount may be made, but not with those.
pub(super) fn asks_for_suid(sandbox: &Sandbox) -> Outcome {
    for data in [c"suid,dev,exec", c"suid", c"dev", c""] {
        if mount(c"hostile", &sandbox.target, c"tmpfs", 0, data).is_err() {
            continue;
        }
        let new = sandbox.new_mounts();
        let lax = |options: &str| !["nosuid", "nodev"].iter().all(|must| options.split(',').any(|option| option == *must));
        return match new.iter().find(|mount| lax(&mount.options)) {
            Some(mount) => succeeded(format!("mounted {}", mount.options)),
            None => refused("mounted, but nosuid,nodev"),
        };
    }
    refused("every form was refused")
}

/// A source that would forge lines of the mount table, if a program printed it unfiltered. The driver looks at the
/// host's table and at `shorefast list`.
pub(super) fn forged_source(sandbox: &Sandbox) -> Outcome {
    let source = c"x rw 0 0\n99 1 0:99 / /etc rw - proc \x1b[31mproc\xff\\040\" } ] rw";
    match mount(source, &sandbox.target, c"tmpfs", 0, c"") {
        Err(errno) => refused(errno.to_string()),
        Ok(_) => match sandbox.forbidden_mounts().as_slice() {
            [] if sandbox.new_mounts().iter().any(|mount| mount.source.contains('\n')) => succeeded("the newline is in the table"),
            [] => refused("mounted with the source as a mere name"),
            forged => succeeded(forged.join(", ")),
        },
    }
}

/// A FUSE mount whose `fd=` is not an unused /dev/fuse of ours.
pub(super) fn fuse_with(sandbox: &Sandbox, options: &str) -> Outcome {
    let data = CString::new(options).expect("it holds no NUL");
    harm_if_ok(mount(c"hostile", &sandbox.target, c"fuse", 0, &data), format!("a fuse mount with {options}"))
}

pub(super) fn fuse_with_number(sandbox: &Sandbox, numbers: &[&str]) -> Outcome {
    any_of(numbers.iter(), |number| fuse_with(sandbox, &fuse::options(number)))
}

/// A number that is our /dev/fuse once it is truncated to 32 bits.
pub(super) fn fuse_with_wrapped_number(sandbox: &Sandbox) -> Outcome {
    let Ok(device) = fuse::open_device() else { return refused("no /dev/fuse") };
    let fd = device.as_raw_fd() as u64;
    let wrapped = [fd + (1 << 32), fd + (1 << 40)].map(|number| number.to_string());
    // "+5" and "5\n" are missing: the kernel takes them for 5, so the broker may.
    let padded = [format!(" {fd}"), format!("{fd}x"), format!("{fd}.0"), format!("{fd} ")];
    any_of(wrapped.iter().chain(&padded), |number| fuse_with(sandbox, &fuse::options(number)))
}

pub(super) fn fuse_with_other_files(sandbox: &Sandbox) -> Outcome {
    let file = scratch_dir("fuse").join("file");
    fs::write(&file, "").expect("scratch is writable");
    let paths = [c"/dev/null", c"/dev/zero", c"/dev/urandom", &*c_path(&file), c"/proc/self/mem"];
    any_of(paths, |path| match sys::open(path, libc::O_RDWR) {
        Ok(fd) => fuse_with(sandbox, &fuse::options(&fd.as_raw_fd().to_string())),
        Err(errno) => refused(format!("open {}: {errno}", path.to_string_lossy())),
    })
}

pub(super) fn fuse_with_sockets_and_directories(sandbox: &Sandbox) -> Outcome {
    let (socket, _peer) = UnixStream::pair().expect("a socket pair can be made");
    let (pipe, _writer) = std::io::pipe().expect("a pipe can be made");
    let directory = sys::open(c"/", libc::O_PATH | libc::O_DIRECTORY).expect("the root can be opened");
    let path_only = sys::open(c"/dev/fuse", libc::O_PATH);
    let mut numbers = vec![socket.as_raw_fd(), pipe.as_raw_fd(), directory.as_raw_fd()];
    numbers.extend(path_only.iter().map(|fd| fd.as_raw_fd()));
    any_of(numbers.iter(), |fd| fuse_with(sandbox, &fuse::options(&fd.to_string())))
}

/// Two descriptors named, one of them the broker's problem.
pub(super) fn fuse_with_two_descriptors(sandbox: &Sandbox) -> Outcome {
    let Ok(device) = fuse::open_device() else { return refused("no /dev/fuse") };
    let fd = device.as_raw_fd().to_string();
    let rest = "rootmode=40000,user_id=0,group_id=0";
    any_of(
        [format!("{rest},fd={fd},fd=0"), format!("fd=5,{rest},fd=6"), format!("fd={fd},{rest},fd"), format!("{rest},fd=")].iter(),
        |options| fuse_with(sandbox, options),
    )
}

/// `{fd}` is an open /dev/fuse.
pub(super) fn fuse_with_options(sandbox: &Sandbox, options: &[&str]) -> Outcome {
    let Ok(device) = fuse::open_device() else { return refused("no /dev/fuse") };
    let fd = device.as_raw_fd().to_string();
    any_of(options.iter(), |options| fuse_with(sandbox, &options.replace("{fd}", &fd)))
}

/// The user who is to own the mount: no user, or a user of the host. A broker that puts its own number there does no harm.
pub(super) fn fuse_for_another_user(sandbox: &Sandbox) -> Outcome {
    let Ok(device) = fuse::open_device() else { return refused("no /dev/fuse") };
    let fd = device.as_raw_fd();
    for user in ["-1", "4294967295", "99999999999", "x", "1999999999", "1000000"] {
        let data = CString::new(format!("fd={fd},rootmode=40000,user_id={user},group_id={user}")).expect("it holds no NUL");
        if mount(c"hostile", &sandbox.target, c"fuse", 0, &data).is_err() {
            continue;
        }
        let asked = |options: &str| options.split(',').any(|option| option.strip_suffix(user).is_some_and(|key| key.ends_with("_id=")));
        return match sandbox.new_mounts().iter().find(|mount| asked(&mount.superblock)) {
            Some(mount) => succeeded(format!("a mount of user {user}: {}", mount.superblock)),
            None => refused(format!("mounted, but not for user {user}")),
        };
    }
    refused("every form was refused")
}

/// A second mount on the descriptor of a first, through a duplicate of it.
pub(super) fn fuse_on_used_descriptor(sandbox: &Sandbox) -> Outcome {
    let Ok(device) = fuse::open_device() else { return refused("no /dev/fuse") };
    if let Err(errno) = fuse::mount_device(sandbox, &device) {
        return refused(format!("not even the first: {errno}"));
    }
    let double = device.try_clone().expect("a descriptor can be duplicated");
    harm_if_ok(fuse::mount_device(sandbox, &double), "two mounts share one connection")
}

pub(super) fn second_mount(sandbox: &Sandbox) -> Outcome {
    if let Err(errno) = mount(c"hostile", &sandbox.target, c"tmpfs", 0, c"") {
        return refused(format!("not even the first: {errno}"));
    }
    first_harm([onto(sandbox.target_path()), onto("/usr"), onto(SCRATCH), below_the_target(sandbox)])
}

pub(super) fn unmount(targets: &[&str], flags: &[i32]) -> Outcome {
    let pairs = targets.iter().flat_map(|target| flags.iter().map(move |flag| (target, *flag)));
    any_of(pairs, |(target, flag)| harm_if_ok(umount(&c_path(target), flag), format!("unmounted {target} with {flag:#x}")))
}

pub(super) fn unmount_nowhere(sandbox: &Sandbox) -> Outcome {
    let hole = Pages::map(1, 0).expect("a page can be mapped");
    let words = [0, 1, hole.end(), usize::MAX];
    let bad = words.map(|word| harm_if_ok(sys::call(libc::SYS_umount2, [word, 0]), format!("unmounted {word:#x}")));
    first_harm(bad.into_iter().chain([harm_if_ok(umount(&sandbox.target, 0), "unmounted the target before there was a mount")]))
}

/// The mount made by the broker is the host's; undoing it early must leave nothing behind. The driver looks at the host.
pub(super) fn unmounts_its_own(sandbox: &Sandbox) -> Outcome {
    let mounted = mount(c"hostile", &sandbox.target, c"tmpfs", 0, c"");
    let unmounted = umount(&sandbox.target, libc::MNT_DETACH);
    match sandbox.forbidden_mounts().as_slice() {
        [] => refused(format!("mount {mounted:?}, umount {unmounted:?}")),
        stray => succeeded(stray.join(", ")),
    }
}

/// The host makes a superblock for each, and may ask a server: a client gets as many as its definition says, not one at a time for ever.
pub(super) fn mounts_again(sandbox: &Sandbox) -> Outcome {
    let mounted = || mount(c"hostile", &sandbox.target, c"tmpfs", 0, c"");
    let undone = mounted().and_then(|_| umount(&sandbox.target, libc::MNT_DETACH));
    match undone {
        Ok(_) => harm_if_ok(mounted(), "a second mount after the first was undone"),
        Err(errno) => refused(format!("not even one mount can be made and undone: {errno}")),
    }
}
