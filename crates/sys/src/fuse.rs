//! /dev/fuse: opens it, recognises it, and clones connections. Descriptors in and out.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};

use crate::error::{Result, call, checked};

/// Character device 10:229, fixed by the kernel's list of devices.
pub const MAJOR: u32 = 10;
pub const MINOR: u32 = 229;

/// `_IOR(229, 0, uint32_t)`
const FUSE_DEV_IOC_CLONE: libc::Ioctl = 0x8004_e500_u32 as libc::Ioctl;

/// A new device without a connection, opened by us and so in our user namespace.
pub fn open() -> Result<OwnedFd> {
    call(|| "open(\"/dev/fuse\")".into(), rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()))
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
