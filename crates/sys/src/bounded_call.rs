//! System calls that may block for ever, each made by a separate process with a deadline. Arguments and a deadline in,
//! a [`Bounded`] result out.
//!
//! A call on a network or FUSE filesystem waits for its server, sometimes uninterruptibly, so that even SIGKILL has no
//! effect. So our own process never makes such calls. A child does that shares only our memory; it can be killed, or
//! abandoned if it cannot be killed. It holds none of our other descriptors, so that no caller waits for end of file on
//! a pipe because of it. It costs slightly more than a thread but, unlike a thread, it cannot keep us from exiting.

mod list;

use std::ffi::{CStr, CString};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MoveMountFlags, UnmountFlags};
use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage};
use rustix::net::{SendFlags, SocketFlags, SocketType};
use rustix::process::Pid;

use crate::error::{Error, Result, checked};
use crate::process::{Child, close_all_but, exit_now};
use crate::statmount;

pub use list::{Listed, list, list_root};

/// How a bounded call ended.
#[derive(Debug)]
pub enum Bounded<T> {
    Done(T),
    Failed(Error),
    /// The deadline passed. The process was killed; if it is in an uninterruptible wait, it exits when the kernel lets
    /// it.
    TimedOut,
}

impl<T> Bounded<T> {
    /// For callers that treat a timeout as one more error.
    pub fn or_timed_out(self, text: impl FnOnce() -> String) -> Result<T> {
        match self {
            Self::Done(value) => Ok(value),
            Self::Failed(error) => Err(error),
            Self::TimedOut => Err(Error::new(text(), Errno::TIMEDOUT)),
        }
    }

    fn map<U>(self, change: impl FnOnce(T) -> Bounded<U>) -> Bounded<U> {
        match self {
            Self::Done(value) => change(value),
            Self::Failed(error) => Bounded::Failed(error),
            Self::TimedOut => Bounded::TimedOut,
        }
    }
}

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
        // SAFETY: as in `create`. The child has its own working directory.
        rustix::process::fchdir(unsafe { BorrowedFd::borrow_raw(directory) })?;
        rustix::mount::unmount(name.as_c_str(), flags)
    };
    run(|| text, &[directory], deadline, ask)
}

/// Opens a path that may cross filesystems that do not respond.
pub fn open(path: &Path, flags: OFlags, deadline: Instant) -> Bounded<OwnedFd> {
    open_at_once(path, flags).map_or_else(|| send_out([OpenRequest { path, flags }], deadline).map(|[opened]| opened.into()), Bounded::Done)
}

/// Opens a path below `root`. Symbolic links are followed within; those of /proc, which lead out of it, are refused.
pub fn open_below(root: BorrowedFd<'_>, path: &Path, flags: OFlags, deadline: Instant) -> Bounded<OwnedFd> {
    let text = || format!("open({path:?})");
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (path, (ours, theirs)) = match crate::c_string(path).and_then(|path| Ok((path, crate::call(|| "socketpair()".into(), pair)?))) {
        Ok(prepared) => prepared,
        Err(error) => return Bounded::Failed(error),
    };
    let (root, socket) = (root.as_raw_fd(), theirs.as_raw_fd());
    let ask = move || {
        // SAFETY: as in `create`.
        let root = unsafe { BorrowedFd::borrow_raw(root) };
        // SAFETY: the same.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let file = rustix::fs::openat2(root, path.as_c_str(), flags | OFlags::CLOEXEC, Mode::empty(), within)?;
        pass_on(socket, file.as_fd())
    };
    run(text, &[root, socket], deadline, ask).map(|()| receive(&ours).map_err(|errno| Error::new(text(), errno)).into())
}

/// `move_mount` onto a file or directory of any filesystem. It takes the lock of that inode, which a process that reads
/// or changes the inode may hold while it waits for the filesystem's server.
pub fn attach(mount: BorrowedFd<'_>, place: BorrowedFd<'_>, deadline: Instant) -> Bounded<()> {
    let (mount, place) = (mount.as_raw_fd(), place.as_raw_fd());
    let ask = move || {
        // SAFETY: as in `create`.
        let mount = unsafe { BorrowedFd::borrow_raw(mount) };
        // SAFETY: the same.
        let place = unsafe { BorrowedFd::borrow_raw(place) };
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(mount, c"", place, c"", flags)
    };
    run(|| "move_mount()".to_owned(), &[mount, place], deadline, ask)
}

/// The filesystem type, as the magic number of statfs(2). Some filesystems ask their server for it.
pub fn filesystem_of(file: BorrowedFd<'_>, deadline: Instant) -> Bounded<u32> {
    let file = file.as_raw_fd();
    // SAFETY: as in `create`.
    let ask = move || rustix::fs::fstatfs(unsafe { BorrowedFd::borrow_raw(file) }).map(|found| found.f_type as u32);
    run(|| "fstatfs()".to_owned(), &[file], deadline, ask)
}

/// Opens two paths, with one child if any is needed: they usually wait for the same server.
pub fn open_both(first: OpenRequest<'_>, second: OpenRequest<'_>, deadline: Instant) -> (Bounded<OwnedFd>, Bounded<OwnedFd>) {
    match (open_at_once(first.path, first.flags), open_at_once(second.path, second.flags)) {
        (Some(first), Some(second)) => (Bounded::Done(first), Bounded::Done(second)),
        (Some(first), None) => (Bounded::Done(first), open(second.path, second.flags, deadline)),
        (None, Some(second)) => (open(first.path, first.flags, deadline), Bounded::Done(second)),
        (None, None) => match send_out([first, second], deadline) {
            Bounded::Done([first, second]) => (first.into(), second.into()),
            Bounded::Failed(error) => (Bounded::Failed(error), Bounded::TimedOut),
            Bounded::TimedOut => (Bounded::TimedOut, Bounded::TimedOut),
        },
    }
}

/// What to open, and how.
#[derive(Clone, Copy, Debug)]
pub struct OpenRequest<'a> {
    pub path: &'a Path,
    pub flags: OFlags,
}

impl<T> From<Result<T>> for Bounded<T> {
    fn from(result: Result<T>) -> Self {
        result.map_or_else(Self::Failed, Self::Done)
    }
}

fn send_out<const N: usize>(wishes: [OpenRequest<'_>; N], deadline: Instant) -> Bounded<[Result<OwnedFd>; N]> {
    let prepare = || {
        let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let paths = wishes.iter().map(|wish| Ok((crate::c_string(wish.path)?, wish.flags))).collect::<Result<Vec<_>>>()?;
        Ok((paths, crate::call(|| "socketpair()".into(), pair)?))
    };
    let (paths, (ours, theirs)) = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => return Bounded::Failed(error),
    };
    let socket = theirs.as_raw_fd();
    let ask = move || {
        // SAFETY: as in `create`.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        paths.iter().try_for_each(|(path, flags)| match rustix::fs::open(path.as_c_str(), *flags | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => pass_on(socket, file.as_fd()),
            Err(errno) => rustix::net::send(socket, &errno.raw_os_error().to_ne_bytes(), SendFlags::NOSIGNAL).map(drop),
        })
    };
    let text = |wish: &OpenRequest<'_>| format!("open({:?})", wish.path);
    let sent = run(|| text(&wishes[0]), &[socket], deadline, ask);
    sent.map(|()| Bounded::Done(wishes.map(|wish| receive(&ours).map_err(|errno| Error::new(text(&wish), errno)))))
}

/// Opens a path with an O_PATH open that only uses the kernel's caches and ends on a local filesystem, so that no child
/// process is needed. `None`: that is not possible, or Linux is older than 5.12.
///
/// During the path walk no filesystem is contacted: with RESOLVE_CACHED, one that would have to ask its server fails
/// instead. At the end, if that is the root of a mount, three filesystems are called once more: overlayfs; NFS, which
/// answers from its cache; and 9p, which could ask its server about files that were modified from here.
fn open_at_once(path: &Path, flags: OFlags) -> Option<OwnedFd> {
    let is_for_us = path.is_absolute() && flags.contains(OFlags::PATH);
    let open = |more| {
        let resolve = ResolveFlags::CACHED | ResolveFlags::NO_MAGICLINKS | more;
        rustix::fs::openat2(rustix::fs::CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
    };
    let elsewhere = || open(ResolveFlags::empty()).filter(|opened| is_local(opened.as_fd()));
    // Nearly every path is on the filesystem of `/`.
    is_for_us.then(|| open(ResolveFlags::NO_XDEV).or_else(elsewhere))?
}

/// Whether the filesystem depends on this machine only: it is on a block device, or one of the known types without one.
/// The kernel answers this; the filesystem is not called.
fn is_local(opened: BorrowedFd<'_>) -> bool {
    const BTRFS: u64 = 0x9123_683e;
    const OVERLAYFS: u64 = 0x794c_7630;
    const TMPFS: u64 = 0x0102_1994;
    const ZFS: u64 = 0x2fc1_2fc1;
    let on = statmount::id_of(opened).and_then(|mount| statmount::superblock(mount).ok());
    on.is_some_and(|on| on.major != 0 || [BTRFS, OVERLAYFS, TMPFS, ZFS].contains(&on.magic))
}

/// Reads a file or pipe until its end, or until `limit` + 1 bytes, so that the caller can detect a file that is too
/// long.
pub fn read(path: &Path, limit: usize, deadline: Instant) -> Bounded<Vec<u8>> {
    let c_path = match crate::c_string(path) {
        Ok(path) => path,
        Err(error) => return Bounded::Failed(error),
    };
    // All memory is allocated before, because the child must not allocate. Most of it is never touched.
    let mut buffer = Vec::with_capacity(limit + 1);
    let ask = move || {
        let file = rustix::fs::open(c_path.as_c_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        close_all_but(&[file.as_raw_fd()]);
        while buffer.len() <= limit {
            match rustix::io::read(&file, spare_capacity(&mut buffer)) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(buffer)
    };
    run_with(|| format!("read({path:?})"), Descriptors::Named, deadline, ask)
}

/// Copies strings out of the memory of thread `tid`, each of less than `limit` bytes, without the terminator. Its
/// memory may be a mapped file, so a read can page-fault into a filesystem that does not respond.
///
/// Each string has its own error: `EFAULT` or `ENAMETOOLONG`.
pub fn strings_of<const N: usize>(
    tid: i32,
    addresses: [u64; N],
    limit: usize,
    deadline: Instant,
) -> Bounded<[rustix::io::Result<Vec<u8>>; N]> {
    let mut strings: [_; N] = std::array::from_fn(|_| (Vec::with_capacity(limit), Ok(())));
    let path = memory_of(tid);
    let ask = move || {
        let memory = rustix::fs::open(path.as_c_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        for (address, (bytes, result)) in addresses.into_iter().zip(&mut strings) {
            *result = read_string(memory.as_fd(), address, limit, bytes);
        }
        Ok(strings)
    };
    let read = run(|| format!("read(memory of {tid})"), &[], deadline, ask);
    read.map(|strings| Bounded::Done(strings.map(|(bytes, result)| result.map(|()| bytes))))
}

/// The same for a fixed number of bytes.
pub fn bytes_of(tid: i32, address: u64, length: usize, deadline: Instant) -> Bounded<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    let path = memory_of(tid);
    let ask = move || {
        let memory = rustix::fs::open(path.as_c_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        read_part(memory.as_fd(), address, length, &mut bytes)?;
        Ok(bytes)
    };
    run(|| format!("read(memory of {tid})"), &[], deadline, ask)
}

fn memory_of(tid: i32) -> CString {
    CString::new(format!("/proc/{tid}/mem")).expect("no NUL in a number")
}

/// `to` is empty, with capacity for `limit` bytes.
fn read_string(memory: BorrowedFd<'_>, address: u64, limit: usize, to: &mut Vec<u8>) -> rustix::io::Result<()> {
    const PAGE: u64 = 4096;
    while to.len() < limit {
        let at = address.checked_add(to.len() as u64).ok_or(Errno::FAULT)?;
        let start = to.len();
        // Page by page: the next page may be unmapped, and may not be needed.
        read_part(memory, at, (PAGE - at % PAGE).min((limit - start) as u64) as usize, to)?;
        if let Some(end) = to[start..].iter().position(|byte| *byte == 0) {
            to.truncate(start + end);
            return Ok(());
        }
    }
    Err(Errno::NAMETOOLONG)
}

/// Reads exactly `length` bytes, or fails.
fn read_part(memory: BorrowedFd<'_>, address: u64, length: usize, to: &mut Vec<u8>) -> rustix::io::Result<()> {
    let wanted = to.len() + length;
    while to.len() < wanted {
        let missing = wanted - to.len();
        // Nothing here may panic: unwinding would happen in a process that shares our memory.
        let at = address.checked_add((length - missing) as u64).ok_or(Errno::FAULT)?;
        let (read, _) = rustix::io::pread(memory, &mut to.spare_capacity_mut()[..missing], at).map_err(|_| Errno::FAULT)?;
        let count = read.len();
        if count == 0 {
            return Err(Errno::FAULT);
        }
        // SAFETY: the kernel has initialised this many bytes after the existing ones.
        unsafe { to.set_len(to.len() + count) };
    }
    Ok(())
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

/// Which of our descriptors the child keeps.
enum Descriptors<'a> {
    Only(&'a [RawFd]),
    /// All, because the path may name one, as /dev/stdin does. The child closes the others after opening it.
    Named,
}

fn run<T>(text: impl FnOnce() -> String, keep: &[RawFd], deadline: Instant, ask: impl FnOnce() -> rustix::io::Result<T>) -> Bounded<T> {
    run_with(text, Descriptors::Only(keep), deadline, ask)
}

/// Memory that both processes access.
struct Shared<F, T> {
    keep: [RawFd; KEPT],
    close: bool,
    parent: i32,
    ask: Option<F>,
    answer: Option<rustix::io::Result<T>>,
    stack: Vec<MaybeUninit<u128>>,
}

const KEPT: usize = 2;
/// For a system call and its frames.
const STACK: usize = 16 * 1024;

/// A bounded call in progress, for callers with other work meanwhile. Dropped: the child is killed, or abandoned if it
/// cannot be.
#[derive(Debug)]
pub struct Pending<T> {
    child: Child,
    /// Null: already freed, or left to a child that may still access it.
    shared: *mut libc::c_void,
    /// Frees the shared memory and returns the answer. To be called once, after the child has ended.
    collect: unsafe fn(*mut libc::c_void) -> Option<rustix::io::Result<T>>,
}

/// Asks for the attributes of a mount's root, bypassing caches. The child holds the mount and no other descriptor of
/// ours: no listener, no control socket, no FUSE device. So when the serving process ends, the FUSE connection closes
/// and the child ends, too.
pub fn look_at(mount: BorrowedFd<'_>) -> Result<Pending<()>> {
    let root = mount.as_raw_fd();
    let ask = move || {
        // SAFETY: as in `create`.
        let root = unsafe { BorrowedFd::borrow_raw(root) };
        rustix::fs::statx(root, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS).map(drop)
    };
    send(Descriptors::Only(&[root]), ask)
}

impl<T> Pending<T> {
    /// Readable when the call has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.child.pidfd.as_fd()
    }

    /// The result of a call that has ended. `None`: the child was killed by another process.
    pub fn answer(mut self) -> Option<rustix::io::Result<T>> {
        self.collect()
    }

    /// Kills the child, and waits up to `patience`. Most waits in the kernel end at once on SIGKILL.
    fn end(&mut self, patience: Duration) -> Option<rustix::io::Result<T>> {
        let _ = rustix::process::pidfd_send_signal(&self.child.pidfd, rustix::process::Signal::KILL);
        if self.child.ends_by(Instant::now() + patience) {
            return self.collect();
        }
        // When the kernel releases the child, it touches its stack once more. So the shared memory is leaked.
        self.shared = std::ptr::null_mut();
        None
    }

    fn collect(&mut self) -> Option<rustix::io::Result<T>> {
        if !self.child.ends_by(Instant::now()) {
            return None;
        }
        self.child.reap();
        let shared = std::mem::replace(&mut self.shared, std::ptr::null_mut());
        // SAFETY: the other process has ended, and the pointer is the one from `send`, used this once.
        if shared.is_null() { None } else { unsafe { (self.collect)(shared) } }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if !self.shared.is_null() {
            let _ = self.end(TO_DIE_UNHEARD);
        }
    }
}

/// `ask` runs in the child: only system calls through rustix, which makes them directly. libc's wrappers would write to
/// our thread's errno, and an allocation could deadlock with or corrupt one of ours.
fn send<T, F: FnOnce() -> rustix::io::Result<T>>(descriptors: Descriptors<'_>, ask: F) -> Result<Pending<T>> {
    extern "C" fn entry<F: FnOnce() -> rustix::io::Result<T>, T>(shared: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `send` passes a live Shared, which nothing else accesses or frees before this process has ended.
        let shared = unsafe { &mut *shared.cast::<Shared<F, T>>() };
        // Die with the parent, even if it is killed. The check covers a parent that died before the prctl.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
        if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(shared.parent) {
            exit_now(1);
        }
        if shared.close {
            close_all_but(&shared.keep);
        }
        shared.answer = shared.ask.take().map(|ask| ask());
        exit_now(0)
    }
    unsafe fn collect<F, T>(shared: *mut libc::c_void) -> Option<rustix::io::Result<T>> {
        // SAFETY: the caller promises that this is the pointer from `send`, from Box::into_raw, and that nothing else
        // uses it.
        unsafe { Box::from_raw(shared.cast::<Shared<F, T>>()) }.answer
    }

    let mut keep = [-1; KEPT];
    let close = match descriptors {
        Descriptors::Only(few) => {
            keep[..few.len()].copy_from_slice(few);
            true
        }
        Descriptors::Named => false,
    };
    keep.sort_unstable();
    let stack = Vec::with_capacity(STACK / size_of::<u128>());
    let parent = rustix::process::getpid().as_raw_nonzero().get();
    // From here on a raw pointer, because two processes access it.
    let shared: *mut Shared<F, T> = Box::into_raw(Box::new(Shared { keep, close, parent, ask: Some(ask), answer: None, stack }));
    match spawn(entry::<F, T>, shared) {
        Ok(child) => Ok(Pending { child, shared: shared.cast(), collect: collect::<F, T> }),
        Err(error) => {
            // SAFETY: no child was created; this is the allocation of the box above.
            drop(unsafe { Box::from_raw(shared) });
            Err(error)
        }
    }
}

fn run_with<T>(
    text: impl FnOnce() -> String,
    descriptors: Descriptors<'_>,
    deadline: Instant,
    ask: impl FnOnce() -> rustix::io::Result<T>,
) -> Bounded<T> {
    match send(descriptors, ask) {
        Ok(sent) => finish(text, sent, deadline),
        Err(error) => Bounded::Failed(error),
    }
}

fn finish<T>(text: impl FnOnce() -> String, mut sent: Pending<T>, deadline: Instant) -> Bounded<T> {
    if sent.child.ends_by(deadline) {
        return match sent.answer() {
            Some(Ok(value)) => Bounded::Done(value),
            Some(Err(errno)) => Bounded::Failed(Error::new(text(), errno)),
            // It was killed by another process, which presumably wants us to end as well.
            None => Bounded::Failed(Error::new(text(), Errno::INTR)),
        };
    }
    match sent.end(TO_DIE) {
        Some(Ok(value)) => Bounded::Done(value),
        _ => Bounded::TimedOut,
    }
}

/// Most waits in the kernel end at once on SIGKILL.
const TO_DIE: Duration = Duration::from_millis(500);
/// The same for a call whose result is not needed.
const TO_DIE_UNHEARD: Duration = Duration::from_millis(20);

fn spawn<F, T>(entry: extern "C" fn(*mut libc::c_void) -> libc::c_int, shared: *mut Shared<F, T>) -> Result<Child> {
    let mut pidfd: libc::c_int = -1;
    // Memory is shared; descriptor table, root and working directory, and signal handlers are copies.
    let flags = libc::CLONE_VM | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: the pointer is to a live Shared that no other process has yet.
    let stack = unsafe { &mut (*shared).stack };
    let capacity = stack.capacity();
    // SAFETY: one past the end of the vector's allocation.
    let top = unsafe { stack.as_mut_ptr().add(capacity) };
    // SAFETY: the child runs on its own stack, which is part of `shared` and outlives it: it is freed only after the
    // child's end. Thread-local storage is shared with the calling thread, so the child uses none (see `send`). The
    // kernel writes one int to `pidfd`.
    let result = unsafe { libc::clone(entry, top.cast(), flags, shared.cast(), &raw mut pidfd) };
    let pid = checked(|| "clone(CLONE_VM)".into(), result.into())?;
    let pid = Pid::from_raw(pid as i32).ok_or_else(|| Error::new("clone(CLONE_VM)", Errno::SRCH))?;
    // SAFETY: CLONE_PIDFD succeeded, so the kernel stored a new descriptor that nothing else owns.
    Ok(Child { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } })
}

fn pass_on(socket: BorrowedFd<'_>, file: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let files = [file];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    rustix::net::sendmsg(socket, &[IoSlice::new(b"f")], &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// The received descriptor, or the errno that was sent instead.
fn receive(socket: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let mut errno = [0u8; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::net::recvmsg(socket, &mut [std::io::IoSliceMut::new(&mut errno)], &mut control, flags)?;
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    match (file, received.bytes) {
        (Some(file), _) => Ok(file),
        (None, 4) => Err(Errno::from_raw_os_error(i32::from_ne_bytes(errno))),
        (None, _) => Err(Errno::PROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;

    /// Longer than any test takes, however busy the machine is.
    fn in_time() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn an_answer_arrives() {
        let file = open(Path::new("/proc/self/status"), OFlags::RDONLY, in_time());
        assert!(matches!(file, Bounded::Done(_)), "{file:?}");
        let text = read(Path::new("/proc/self/comm"), 100, in_time());
        assert!(matches!(&text, Bounded::Done(bytes) if !bytes.is_empty()), "{text:?}");
    }

    #[test]
    fn an_error_arrives() {
        let missing = open(Path::new("/nonexistent/file"), OFlags::PATH, in_time());
        assert!(matches!(&missing, Bounded::Failed(error) if error.errno() == Errno::NOENT), "{missing:?}");
    }

    #[test]
    fn what_never_ends_is_late() {
        let directory = std::env::temp_dir().join(format!("bounded-call-{}", std::process::id()));
        let fifo = CString::new(directory.as_os_str().as_bytes()).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, fifo.as_c_str(), rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let late = read(&directory, 100, Instant::now() + Duration::from_millis(50));
        assert!(matches!(late, Bounded::TimedOut), "{late:?}");
        std::fs::remove_file(directory).unwrap();
    }

    #[test]
    fn too_much_is_seen_as_too_much() {
        let zero = read(Path::new("/dev/zero"), 10, in_time());
        assert!(matches!(&zero, Bounded::Done(bytes) if bytes.len() == 11), "{zero:?}");
    }

    #[test]
    fn descriptors_that_are_kept_survive() {
        for number in [3, 7, 200] {
            close_all_but_in_a_child(number);
        }
    }

    fn close_all_but_in_a_child(number: RawFd) {
        let file = std::fs::File::open("/dev/null").unwrap();
        let lifted = rustix::io::fcntl_dupfd_cloexec(&file, number).unwrap();
        let kept = lifted.as_raw_fd();
        let ask = move || {
            // SAFETY: open in the child, which runs this.
            rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(kept) })?;
            // SAFETY: only asks whether it is open.
            match rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(0) }) {
                Err(Errno::BADF) => Ok(()),
                _ => Err(Errno::EXIST),
            }
        };
        let answer = run(String::new, &[kept], in_time(), ask);
        assert!(matches!(answer, Bounded::Done(())), "{answer:?}");
    }

    #[test]
    fn memory_is_copied() {
        let own = std::process::id() as i32;
        let at = |text: &CStr| text.as_ptr() as u64;
        let long = CString::new(vec![b'x'; 3 * 4096]).unwrap();
        let strings = strings_of(own, [at(c"one"), at(&long), at(c"0123456789"), 8, u64::MAX - 2], 4 * 4096, in_time());
        let Bounded::Done([one, two, three, nowhere, end]) = strings else { panic!("{strings:?}") };
        assert_eq!((one, two, three), (Ok(b"one".to_vec()), Ok(long.as_bytes().to_vec()), Ok(b"0123456789".to_vec())));
        assert_eq!((nowhere, end), (Err(Errno::FAULT), Err(Errno::FAULT)));
        let Bounded::Done([short]) = strings_of(own, [at(c"0123456789")], 10, in_time()) else { panic!("late") };
        assert_eq!(short, Err(Errno::NAMETOOLONG));
        assert!(matches!(bytes_of(own, at(c"01234"), 3, in_time()), Bounded::Done(bytes) if bytes == b"012"));
        assert!(matches!(bytes_of(own, 8, 3, in_time()), Bounded::Failed(error) if error.errno() == Errno::FAULT));
    }

    #[test]
    fn two_are_opened_and_each_has_its_own_answer() {
        let wish = |path| OpenRequest { path: Path::new(path), flags: OFlags::PATH | OFlags::DIRECTORY };
        // Not on a filesystem that is known to be local, so a child is needed.
        let rows = [
            ("/dev", "/proc", None, None),
            ("/dev/nosuch", "/proc", Some(Errno::NOENT), None),
            ("/proc", "/proc/version", None, Some(Errno::NOTDIR)),
            ("/", "/proc", None, None),
        ];
        for (first, second, ..) in rows {
            assert!(open_at_once(Path::new(second), OFlags::PATH).is_none(), "{first}, {second}");
        }
        for (first, second, why_not_first, why_not_second) in rows {
            let (one, two) = open_both(wish(first), wish(second), in_time());
            for (call, expected) in [(one, why_not_first), (two, why_not_second)] {
                assert_eq!(call.or_timed_out(String::new).err().map(|error| error.errno()), expected, "{first}, {second}");
            }
        }
    }

    #[test]
    fn what_is_below_a_directory_stays_below_it() {
        let proc = std::fs::File::open("/proc").unwrap();
        assert!(matches!(filesystem_of(proc.as_fd(), in_time()), Bounded::Done(0x9fa0)));
        let open = |path: &str| open_below(proc.as_fd(), Path::new(path), OFlags::PATH, in_time()).or_timed_out(String::new);
        // Absolute, and above it: its own.
        for path in ["version", "/version", "../version", "self/status"] {
            let file = open(path).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(matches!(filesystem_of(file.as_fd(), in_time()), Bounded::Done(0x9fa0)), "{path}");
        }
        let why_not = |path| open(path).unwrap_err().errno();
        assert_eq!((why_not("self/root/etc"), why_not("nosuch")), (Errno::LOOP, Errno::NOENT));
    }

    #[test]
    fn nobody_is_sent_to_a_filesystem_in_memory() {
        let dev = rustix::fs::open("/dev", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let can_tell = statmount::id_of(dev.as_fd()).is_some();
        assert_eq!(open_at_once(Path::new("/dev"), OFlags::PATH).is_some(), can_tell);
        assert_eq!(can_tell.then(|| crate::mount::identify(dev.as_fd()).unwrap().id), statmount::id_of(dev.as_fd()));
    }
}
