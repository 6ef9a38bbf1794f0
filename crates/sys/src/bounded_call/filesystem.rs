//! Calls on mounts and filesystems that wait for a server: making, attaching and unmounting them, and asking what they
//! are.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::mount::{MountFlags, MoveMountFlags, UnmountFlags};
use rustix::thread::LinkNameSpaceType;

use crate::bounded_call::run::{Bounded, Descriptors, Pending, run, send};
use crate::error::Result;

/// `fsconfig(CREATE)`: this is when a network filesystem contacts its server.
pub fn create(fstype: &str, context: BorrowedFd<'_>, deadline: Instant) -> Bounded<()> {
    let context = context.as_raw_fd();
    let ask = move || {
        // SAFETY: the child has this number open in its own table until it ends.
        rustix::mount::fsconfig_create(unsafe { BorrowedFd::borrow_raw(context) })
    };
    run(|| format!("fsconfig({fstype}, CREATE)"), &[context], deadline, ask)
}

/// The classic mount(2), in the mount namespace of the calling thread.
pub fn mount(source: CString, target: CString, fstype: CString, flags: u64, data: CString, deadline: Instant) -> Bounded<()> {
    let text = format!("mount({source:?}, {fstype:?})");
    let ask = move || {
        let flags = MountFlags::from_bits_retain(flags as u32);
        rustix::mount::mount(source.as_c_str(), target.as_c_str(), fstype.as_c_str(), flags, data.as_c_str())
    };
    run(|| text, &[], deadline, ask)
}

/// Unmounts `name`, a mount point in `directory`. Given as a descriptor, because a path could be replaced meanwhile.
pub fn unmount(directory: BorrowedFd<'_>, name: &CStr, flags: UnmountFlags, deadline: Instant) -> Bounded<()> {
    let text = format!("umount2({name:?}, {flags:?})");
    let (directory, name) = (directory.as_raw_fd(), name.to_owned());
    let ask = move || {
        // SAFETY: the child has this number open in its own table until it ends. The child has its own working directory.
        rustix::process::fchdir(unsafe { BorrowedFd::borrow_raw(directory) })?;
        rustix::mount::unmount(name.as_c_str(), flags)
    };
    run(|| text, &[directory], deadline, ask)
}

/// `move_mount` onto a file or directory of any filesystem. It takes the lock of that inode, which a process that reads
/// or changes the inode may hold while it waits for the filesystem's server.
pub fn attach(mount: BorrowedFd<'_>, place: BorrowedFd<'_>, deadline: Instant) -> Bounded<()> {
    attach_with(mount, place, MoveMountFlags::empty(), deadline)
}

/// The same, below the mount whose root is `top` (Linux 6.5). The lock is that of the directory below both.
pub fn attach_beneath(mount: BorrowedFd<'_>, top: BorrowedFd<'_>, deadline: Instant) -> Bounded<()> {
    attach_with(mount, top, MoveMountFlags::MOVE_MOUNT_BENEATH, deadline)
}

fn attach_with(mount: BorrowedFd<'_>, place: BorrowedFd<'_>, more: MoveMountFlags, deadline: Instant) -> Bounded<()> {
    run(|| format!("move_mount({more:?})"), &[mount.as_raw_fd(), place.as_raw_fd()], deadline, attachment(mount, place, more))
}

/// Begins to attach a mount to the root of a mount whose server does not answer. It is attached when the
/// process that waits for that server releases the directory's lock, even if no caller waits for this call any more: nothing ends it.
pub fn begin_to_attach(mount: BorrowedFd<'_>, place: BorrowedFd<'_>) -> Result<Pending<()>> {
    let descriptors = [mount.as_raw_fd(), place.as_raw_fd()];
    send(Descriptors::Only(&descriptors), attachment(mount, place, MoveMountFlags::empty()))
}

fn attachment(mount: BorrowedFd<'_>, place: BorrowedFd<'_>, more: MoveMountFlags) -> impl FnOnce() -> rustix::io::Result<()> + use<> {
    let (mount, place) = (mount.as_raw_fd(), place.as_raw_fd());
    move || {
        // SAFETY: the child has this number open in its own table until it ends.
        let mount = unsafe { BorrowedFd::borrow_raw(mount) };
        // SAFETY: the same.
        let place = unsafe { BorrowedFd::borrow_raw(place) };
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH | more;
        rustix::mount::move_mount(mount, c"", place, c"", flags)
    }
}

/// Keeps a file open until the result is dropped. If it is the last file of a filesystem, closing it writes back what is
/// left, and that may wait for the server: the child waits, not we.
pub fn hold(file: BorrowedFd<'_>) -> Result<Pending<()>> {
    let long = crate::deadline::timespec(std::time::Duration::from_secs(24 * 60 * 60));
    let wait = move || {
        loop {
            let _ = rustix::thread::nanosleep(&long);
        }
    };
    send(Descriptors::Only(&[file.as_raw_fd()]), wait)
}

/// Whether a mount namespace can be entered: that asks the filesystem of its root, if it is a remote one.
pub fn can_be_entered(namespace: BorrowedFd<'_>, deadline: Instant) -> Bounded<()> {
    let namespace = namespace.as_raw_fd();
    let enter = move || {
        // SAFETY: the child has this number open in its own table until it ends. It shares its root and working directory with no
        // other process, which setns requires.
        rustix::thread::move_into_link_name_space(unsafe { BorrowedFd::borrow_raw(namespace) }, Some(LinkNameSpaceType::Mount))
    };
    run(|| "setns(CLONE_NEWNS)".to_owned(), &[namespace], deadline, enter)
}

/// The filesystem type, as the magic number of statfs(2). Some filesystems ask their server for it.
pub fn filesystem_of(file: BorrowedFd<'_>, deadline: Instant) -> Bounded<u32> {
    let file = file.as_raw_fd();
    // SAFETY: the child has this number open in its own table until it ends.
    let ask = move || rustix::fs::fstatfs(unsafe { BorrowedFd::borrow_raw(file) }).map(|found| found.f_type as u32);
    run(|| "fstatfs()".to_owned(), &[file], deadline, ask)
}

/// How many bytes the filesystem has, as it says itself; also of an O_PATH descriptor.
pub fn size_of(file: BorrowedFd<'_>, deadline: Instant) -> Bounded<u64> {
    let file = file.as_raw_fd();
    let ask = move || {
        // SAFETY: the child has this number open in its own table until it ends.
        let found = rustix::fs::fstatvfs(unsafe { BorrowedFd::borrow_raw(file) })?;
        Ok(found.f_blocks.saturating_mul(found.f_frsize))
    };
    run(|| "fstatvfs()".to_owned(), &[file], deadline, ask)
}

/// Reads the beginning of a regular file, and gives the number of bytes. No link is followed.
pub fn taste(directory: BorrowedFd<'_>, name: &CStr, deadline: Instant) -> Bounded<usize> {
    let text = format!("read({name:?})");
    let (directory, name) = (directory.as_raw_fd(), name.to_owned());
    let ask = move || {
        // SAFETY: the child has this number open in its own table until it ends.
        let directory = unsafe { BorrowedFd::borrow_raw(directory) };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, name.as_c_str(), flags, Mode::empty())?;
        let mut bytes = [0u8; 4096];
        rustix::io::read(&file, &mut bytes)
    };
    run(|| text, &[directory], deadline, ask)
}

/// Begins to write back everything that was written to the filesystem of this directory (syncfs(2)).
pub fn begin_to_write_back(directory: BorrowedFd<'_>) -> Result<Pending<()>> {
    let directory = directory.as_raw_fd();
    let ask = move || {
        // SAFETY: the child has this number open in its own table until it ends.
        let directory = unsafe { BorrowedFd::borrow_raw(directory) };
        // An O_PATH descriptor will not do.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::syncfs(rustix::fs::openat(directory, c".", flags, Mode::empty())?)
    };
    send(Descriptors::Only(&[directory]), ask)
}

/// Asks for the attributes of a mount's root, bypassing caches. The child holds the mount and no other descriptor of
/// ours: no listener, no control socket, no FUSE device. So when the serving process ends, the FUSE connection closes
/// and the child ends, too.
pub fn look_at(mount: BorrowedFd<'_>) -> Result<Pending<()>> {
    let root = mount.as_raw_fd();
    let ask = move || {
        // SAFETY: the child has this number open in its own table until it ends.
        let root = unsafe { BorrowedFd::borrow_raw(root) };
        rustix::fs::statx(root, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS).map(drop)
    };
    send(Descriptors::Only(&[root]), ask)
}

/// Identifies the directory that a relative path of thread `tid` refers to, by properties that the thread cannot forge.
/// Its working directory may be on a filesystem that does not respond; other mounts are not entered.
pub fn identify_from(tid: i32, path: &Path, deadline: Instant) -> Bounded<Directory> {
    let text = || format!("open(/proc/{tid}/cwd/{path:?})");
    let cwd = CString::new(format!("/proc/{tid}/cwd")).expect("no NUL in a number");
    let path = match crate::c_string(path) {
        Ok(path) => path,
        Err(error) => return Bounded::Failed(error),
    };
    let ask = move || {
        let cwd = rustix::fs::open(cwd.as_c_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
        identify(rustix::fs::openat2(cwd, path.as_c_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), within)?.as_fd())
    };
    run(text, &[], deadline, ask)
}

/// A directory, identified by properties that a client cannot forge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directory {
    pub device: (u32, u32),
    pub inode: u64,
    pub mount: u64,
}

/// Does not contact a server.
pub fn identify(opened: BorrowedFd<'_>) -> rustix::io::Result<Directory> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(opened, c"", flags, StatxFlags::INO | StatxFlags::MNT_ID)?;
    Ok(Directory { device: (stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino, mount: stat.stx_mnt_id })
}
