//! The parts of the client's root filesystem that are the same for every client. [`enter_empty`] runs in the sandbox's
//! first process while the launching process still plans: it takes an optional small mount namespace and leaves the
//! process in a new mount namespace with an empty root. [`fill_empty`] runs in the launching process, inside that mount
//! namespace, and adds the standard directories; what is specific to this client follows in [`crate::fill`].
//!
//! The root is a small private tmpfs. Everything writable in it is provided by the sandbox, starts empty, and is
//! bounded.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};
use rustix::mount::{MountAttrFlags, UnmountFlags};
use shorefast_sys as sys;
use sys::{Result, call};

use crate::node;
use crate::spec::{DEFAULT_SCRATCH, Rights};

/// Which directories of the root the sandbox provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseDirs {
    /// Everything that is writable; the image is shared and read-only.
    Full,
    /// /dev, /proc and /shorefast; the rest belongs to the container.
    Sparse,
}

pub const ETC: &str = "etc";
const PROC: &str = "proc";
const DEV: &str = "dev";

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

/// Directories that the client owns. They start empty.
const WRITABLE: &[&str] = &["run", "tmp", "root", "shorefast/target", "dev/shm", "var/log", "var/lib", "var/cache", "var/tmp", "var/spool"];

const LINKS_OF_DEV: &[(&str, &str)] =
    &[("dev/fd", "/proc/self/fd"), ("dev/stdin", "/proc/self/fd/0"), ("dev/stdout", "/proc/self/fd/1"), ("dev/stderr", "/proc/self/fd/2")];

const LINKS_OF_VAR: &[(&str, &str)] = &[("var/run", "/run"), ("var/lock", "/run/lock")];

/// Enters a new mount namespace with an empty root. `small`: the mount namespace to copy, if the launching process
/// found one.
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

/// What the sandbox adds to a container's directories.
const SPARSE: &[&str] = &["shorefast", "shorefast/files"];

/// Creates all but the image's files. Runs in the launching process. `owner`: the client's uid.
///
/// In a container without a user namespace the client has the host's uid 0: without capabilities, but it owns whatever
/// root owns. So there the path to the target belongs to `stranger`, a different uid, and the client cannot replace a
/// directory on it.
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

enum Below {
    /// The kernel's own devtmpfs. It stays mounted, covered by the new root, as in every system that left its initramfs
    /// this way. Removing it was ruled out: pivot_root would walk all processes of the host, and umount would wait for
    /// an RCU grace period on all CPUs.
    Nothing,
    /// A copy of the host's mounts, which has to be unmounted.
    Host,
}

/// Creates a new mount namespace, as a copy of a small one if there is one: the cost then does not depend on the number
/// of mounts of the host.
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
