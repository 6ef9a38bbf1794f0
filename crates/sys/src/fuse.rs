//! /dev/fuse: opens it, recognises it, and clones connections. Descriptors in and out.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use crate::error::{Result, call, checked};
use crate::mount;

/// Character device 10:229, fixed by the kernel's list of devices.
pub const MAJOR: u32 = 10;
pub const MINOR: u32 = 229;

/// `_IOR(229, 0, uint32_t)`
const FUSE_DEV_IOC_CLONE: libc::Ioctl = 0x8004_e500_u32 as libc::Ioctl;

/// A new device without a connection, opened by us and so in our user namespace. If /dev/fuse does not exist, because
/// device nodes are not created or the module is not loaded, opens it through a node that we create, which loads the module.
pub fn open() -> Result<OwnedFd> {
    open_host_node().or_else(|error| if error.errno() == Errno::NOENT { open_own_node() } else { Err(error) })
}

/// The host's /dev/fuse.
pub fn open_host_node() -> Result<OwnedFd> {
    call(|| "open(\"/dev/fuse\")".into(), rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()))
}

/// A node in a filesystem that no other process sees and that goes away with the last descriptor.
fn open_own_node() -> Result<OwnedFd> {
    const NAME: &str = "fuse";
    let place = mount::new_filesystem("tmpfs", &[("size", "4096")], MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
    let device = rustix::fs::makedev(MAJOR, MINOR);
    let made = rustix::fs::mknodat(&place, Path::new(NAME), FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, device);
    call(|| "mknod(fuse)".into(), made)?;
    call(|| "open(fuse)".into(), rustix::fs::openat(&place, NAME, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()))
}

/// By device number, not by name: paths in a sandbox prove nothing. With STATX_DONT_SYNC, because the descriptor may be
/// a file of any filesystem, whose server may never respond.
pub fn is_device(fd: BorrowedFd<'_>) -> bool {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(fd, c"", flags, StatxFlags::TYPE).is_ok_and(|stat| {
        let is_character = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::CharacterDevice;
        is_character && (stat.stx_rdev_major, stat.stx_rdev_minor) == (MAJOR, MINOR)
    })
}

/// Makes `device`, open but not yet mounted, a second end of the connection that `connected` belongs to.
///
/// Across user namespaces this works from Linux 6.2; before, it gives EINVAL.
pub fn clone_connection(device: BorrowedFd<'_>, connected: &OwnedFd) -> Result<()> {
    let number = connected.as_fd().as_raw_fd() as u32;
    // SAFETY: the ioctl reads one u32 from the pointer, which outlives the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), FUSE_DEV_IOC_CLONE, &raw const number) };
    checked(|| "ioctl(FUSE_DEV_IOC_CLONE)".into(), result.into()).map(drop)
}
