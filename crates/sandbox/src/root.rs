//! The root filesystem that the client sees, as far as it is the same for every client. The sandbox's first process makes it and
//! what it needs itself, while the launching process still plans; that one does the rest, with what only this client gets
//! to see ([`crate::fill`]).
//!
//! It is a small private tmpfs. What is writable is ours, empty at the start, and bounded.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};
use rustix::mount::{MountAttrFlags, UnmountFlags};
use shorefast_sys as sys;
use sys::{Result, call};

use crate::node;
use crate::spec::{DEFAULT_SCRATCH, Rights};

/// Which directories of the root are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseDirs {
    /// All that is writable; the image is shared and read-only.
    Full,
    /// /dev, /proc and /shorefast; the rest is the container's own.
    Sparse,
}

pub const ETC: &str = "etc";
const PROC: &str = "proc";
const DEV: &str = "dev";

/// Character devices: name, major, minor.
const DEVICES: &[(&str, u32, u32)] = &[
    ("dev/null", 1, 3),
    ("dev/zero", 1, 5),
    ("dev/full", 1, 7),
    ("dev/random", 1, 8),
    ("dev/urandom", 1, 9),
    ("dev/tty", 5, 0),
    ("dev/fuse", sys::fuse::MAJOR, sys::fuse::MINOR),
];

const DIRECTORIES: &[&str] = &["sys", "var", "shorefast", "shorefast/files", ETC];

/// Directories that belong to the client. They start empty.
const WRITABLE: &[&str] = &["run", "tmp", "root", "shorefast/target", "dev/shm", "var/log", "var/lib", "var/cache", "var/tmp", "var/spool"];

const LINKS_OF_DEV: &[(&str, &str)] =
    &[("dev/fd", "/proc/self/fd"), ("dev/stdin", "/proc/self/fd/0"), ("dev/stdout", "/proc/self/fd/1"), ("dev/stderr", "/proc/self/fd/2")];

const LINKS_OF_VAR: &[(&str, &str)] = &[("var/run", "/run"), ("var/lock", "/run/lock")];

/// Goes to an empty root of its own, in a mount namespace of its own: all that is the same for
/// every client. `small`: what to make it from, if the launching process could see that.
pub fn enter_empty(small: Option<&OwnedFd>, rights: Rights) -> Result<()> {
    let size = DEFAULT_SCRATCH.to_string();
    let options = [("size", size.as_str()), ("nr_inodes", "65536"), ("mode", "0755"), ("source", "shorefast")];
    let root = sys::mount::new_filesystem("tmpfs", &options, MountAttrFlags::MOUNT_ATTR_NOSUID)?;
    let of_proc = match rights {
        Rights::None => MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
        Rights::All => MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    };
    let proc = sys::mount::new_filesystem("proc", &[], of_proc | MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
    let below = own_mount_namespace(small)?;
    sys::mount::attach(root.as_fd(), CWD, Path::new("/"))?;
    call(|| "fchdir(root)".into(), rustix::process::fchdir(&root))?;
    match below {
        Below::Nothing => call(|| "chroot(\".\")".into(), rustix::process::chroot("."))?,
        Below::Host => {
            call(|| "pivot_root(\".\", \".\")".into(), rustix::process::pivot_root(".", "."))?;
            call(|| "umount2(old root)".into(), rustix::mount::unmount(".", UnmountFlags::DETACH))?;
            call(|| "chdir(\"/\")".into(), rustix::process::chdir("/"))?;
        }
    }

    for name in [PROC, DEV] {
        node::make_directory(name)?;
    }
    sys::mount::attach(proc.as_fd(), CWD, Path::new(PROC))?;
    DEVICES.iter().try_for_each(|device| make_device(*device))
}

/// The sandbox's own directories beside a container's.
const SPARSE: &[&str] = &["shorefast", "shorefast/files"];

/// What stands in it, but for the image's files. Made by the launching process. `owner`: the client's user.
///
/// A container without a user namespace has the host's root as its own: without any right, but the owner of what root owns. So there the
/// way to the target belongs to a `stranger`, and the client cannot put another directory in its place.
pub fn fill_empty(base_dirs: BaseDirs, owner: u32, stranger: u32) -> Result<()> {
    let (directories, writable, links) = match base_dirs {
        BaseDirs::Full => (DIRECTORIES, WRITABLE, LINKS_OF_VAR),
        BaseDirs::Sparse => (SPARSE, &["shorefast/target", "dev/shm"][..], &[][..]),
    };
    directories.iter().try_for_each(node::make_directory)?;
    if base_dirs == BaseDirs::Sparse {
        let strangers = [".", DEV].iter().chain(SPARSE);
        strangers.into_iter().try_for_each(|name| node::give(Path::new(name), stranger))?;
    }
    for name in writable {
        node::make_directory(name)?;
        node::give(Path::new(name), owner)?;
    }
    LINKS_OF_DEV.iter().chain(links).try_for_each(|(link, target)| node::make_link(Path::new(link), Path::new(target)))
}

fn make_device((path, major, minor): (&str, u32, u32)) -> Result<()> {
    let device = rustix::fs::makedev(major, minor);
    let node = rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), device);
    call(|| format!("mknod({path:?})"), node)
}

/// What a new mount namespace starts with.
enum Below {
    /// Nothing of anybody's: the kernel's own devtmpfs. It stays there, covered by the new root, as
    /// in every system that left its initramfs this way. To take it out, pivot_root would walk
    /// through all processes of the host, and umount would wait for all its processors.
    Nothing,
    /// A copy of the host's mounts, which must go.
    Host,
}

/// A new mount namespace, made from a small one where that can be seen: its price is then the
/// same on every host.
fn own_mount_namespace(small: Option<&OwnedFd>) -> Result<Below> {
    let found = if small.is_none() { sys::namespace::search_small_mount_namespace() } else { None };
    if let Some(small) = small.or(found.as_ref()) {
        sys::namespace::join_mount(small.as_fd())?;
        sys::namespace::unshare_mount()?;
        return Ok(Below::Nothing);
    }
    sys::namespace::unshare_mount()?;
    sys::mount::make_all_private()?;
    Ok(Below::Host)
}
