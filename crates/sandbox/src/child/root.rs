//! The empty root of the sandbox: a small private tmpfs in a new mount namespace, with /proc and the devices. Made while
//! the launching process still plans, which fills it afterwards.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};
use rustix::mount::{MountAttrFlags, UnmountFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use shorefast_sys as sys;
use sys::{Result, call};

use crate::spec::{DEFAULT_SCRATCH, Rights};

const PROC: &str = "proc";
const DEV: &str = "dev";
const LOG: &str = "dev/log";

const DEVICES: &[(&str, u32, u32)] = &[
    ("dev/null", 1, 3),
    ("dev/zero", 1, 5),
    ("dev/full", 1, 7),
    ("dev/random", 1, 8),
    ("dev/urandom", 1, 9),
    ("dev/tty", 5, 0),
    ("dev/fuse", sys::fuse::MAJOR, sys::fuse::MINOR),
];

/// Enters a new mount namespace with an empty root. `small`: the mount namespace to copy, if the launching process
/// found one. Returns the socket [`LOG`].
pub fn enter_empty(small: Option<&OwnedFd>, rights: Rights) -> Result<OwnedFd> {
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
        call(|| format!("mkdir({name:?})"), rustix::fs::mkdir(name, Mode::from_raw_mode(0o755)))?;
    }
    sys::mount::attach(proc.as_fd(), CWD, Path::new(PROC))?;
    DEVICES.iter().try_for_each(|device| make_device(*device))?;
    make_log()
}

/// Where syslog(3) sends to. Pid 1 reads it: a process without rights, as hostile as what the client sends may be. The
/// umask lets everybody send.
fn make_log() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        call(|| "socket(AF_UNIX, SOCK_DGRAM)".into(), rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None))?;
    let bound = SocketAddrUnix::new(LOG).and_then(|address| rustix::net::bind(&socket, &address));
    call(|| format!("bind({LOG:?})"), bound)?;
    sys::descriptors::take_none(socket.as_fd());
    Ok(socket)
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
