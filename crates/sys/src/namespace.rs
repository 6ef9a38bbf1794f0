//! Finds, creates, enters and leaves namespaces: pids and pidfds in, namespace descriptors out.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::error::{Result, call, checked};
use crate::process;

/// A namespace of a process, as a descriptor that keeps it alive.
pub fn of(pid: Pid, kind: &str) -> Result<OwnedFd> {
    open(&format!("/proc/{}/ns/{kind}", pid.as_raw_nonzero()))
}

/// A namespace of the calling thread.
pub fn own(kind: &str) -> Result<OwnedFd> {
    open(&format!("/proc/thread-self/ns/{kind}"))
}

/// The current mount namespace of a process.
pub fn mounts_of(process: BorrowedFd<'_>) -> Result<OwnedFd> {
    match ask_for_mounts(process) {
        Some(namespace) => Ok(namespace),
        None => of(process::pid_of(process)?, "mnt"),
    }
}

/// A mount namespace that lives at least as long as we do: that of the pid 1 that we see, or of the kernel's threads,
/// if pid 1 has more privileges than we have and cannot be inspected. `None`: neither is accessible.
pub fn lasting_mounts() -> Option<OwnedFd> {
    let mounts = |pid: Pid| {
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        ask_for_mounts(process.as_fd()).or_else(|| of(pid, "mnt").ok())
    };
    mounts(Pid::INIT).or_else(|| mounts(Pid::from_raw(2)?).filter(|_| is_kernel_thread("2")))
}

/// The mount namespace of the calling thread. The ioctl is cheaper than opening a file of /proc.
pub fn own_mounts() -> Result<OwnedFd> {
    const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::PIDFD_THREAD);
    let ourselves = rustix::process::pidfd_open(rustix::thread::gettid(), THREAD);
    ourselves.ok().and_then(|ourselves| ask_for_mounts(ourselves.as_fd())).map_or_else(|| own("mnt"), Ok)
}

/// `None`: the kernel lacks the ioctl (6.11), or the process is gone.
fn ask_for_mounts(process: BorrowedFd<'_>) -> Option<OwnedFd> {
    // SAFETY: takes no argument.
    let result = unsafe { libc::ioctl(process.as_raw_fd(), libc::PIDFD_GET_MNT_NAMESPACE, 0) };
    // SAFETY: the call succeeded: a new descriptor that nothing else owns.
    (result >= 0).then(|| unsafe { OwnedFd::from_raw_fd(result) })
}

fn open(path: &str) -> Result<OwnedFd> {
    call(|| format!("open({path:?})"), rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()))
}

/// Joins a mount namespace permanently.
pub fn join_mount(namespace: BorrowedFd<'_>) -> Result<()> {
    call(|| "setns(CLONE_NEWNS)".into(), rustix::thread::move_into_link_name_space(namespace, Some(LinkNameSpaceType::Mount)))
}

/// Joins a namespace of any other type permanently.
pub fn join(namespace: BorrowedFd<'_>) -> Result<()> {
    call(|| "setns()".into(), rustix::thread::move_into_link_name_space(namespace, None))
}

pub fn unshare_mount() -> Result<()> {
    unshare(UnshareFlags::NEWNS)
}

/// Enters a new user namespace. Not with unshare, which fails in a process that shares its memory
/// ([`crate::one_shot`]): instead a child is created in the namespace and opens it, and this process joins it with
/// setns.
pub fn enter_new_user() -> Result<()> {
    const STACK: usize = 64 * 1024;
    let (mut opened, mut pidfd, mut stack) = (None, -1, process::stack(STACK));
    let shared = libc::CLONE_FILES | libc::CLONE_NEWUSER;
    let pid = process::share_memory(shared, stack.spare_capacity_mut(), &raw mut pidfd, || opened = Some(own("user")))?;
    // SAFETY: CLONE_PIDFD succeeded, so the kernel stored a new descriptor that nothing else owns.
    process::Child { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } }.reap();
    let user = opened.unwrap_or_else(|| Err(crate::Error::new("clone(CLONE_NEWUSER)", rustix::io::Errno::SRCH)))?;
    join(user.as_fd())
}

/// Creates a user namespace without processes, only for its mapping. `map`: the contents of uid_map and gid_map.
pub fn with_mapping(map: &str) -> Result<OwnedFd> {
    let holder = process::idle(libc::CLONE_NEWUSER)?;
    let made = map_ids(holder.pid, map).and_then(|()| of(holder.pid, "user"));
    holder.kill_and_reap();
    made
}

/// Writes the mapping of a process's user namespace, the same for uids and gids.
pub fn map_ids(pid: Pid, map: &str) -> Result<()> {
    ["uid_map", "gid_map"].into_iter().try_for_each(|file| {
        let path = format!("/proc/{}/{file}", pid.as_raw_nonzero());
        call(|| format!("write({path:?})"), std::fs::write(&path, map))
    })
}

fn unshare(flags: UnshareFlags) -> Result<()> {
    // SAFETY: what is dangerous about unshare is CLONE_FILES, which takes descriptors away from owners in other
    // threads; only namespace flags and CLONE_FS are passed here.
    call(|| format!("unshare({flags:?})"), unsafe { rustix::thread::unshare_unsafe(flags) })
}

/// Where this process normally is: its mount namespace, root and working directory.
#[derive(Debug)]
pub struct Home {
    namespace: OwnedFd,
    root: OwnedFd,
    directory: OwnedFd,
}

impl Home {
    pub fn here() -> Result<Self> {
        let place = |path: &str| {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            call(|| format!("open({path:?}, O_PATH)"), rustix::fs::open(path, flags, Mode::empty()))
        };
        Ok(Self { namespace: own_mounts()?, root: place("/")?, directory: place(".")? })
    }

    /// The number of mounts. `None`: the kernel lacks the ioctl (6.12).
    pub fn mounts(&self) -> Option<u32> {
        count_mounts(self.namespace.as_fd())
    }

    /// Enters another mount namespace; dropping the result returns.
    pub fn visit(&self, namespace: BorrowedFd<'_>) -> Result<Visit<'_>> {
        // The kernel refuses setns in a thread that shares root and working directory with others, so unshare them.
        unshare(UnshareFlags::FS)?;
        join_mount(namespace)?;
        Ok(Visit { home: self })
    }
}

/// The guard of a stay in another mount namespace.
#[derive(Debug)]
pub struct Visit<'a> {
    home: &'a Home,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        // Panics, because continuing in a hostile mount namespace would be worse.
        join_mount(self.home.namespace.as_fd()).expect("the way back into our own mount namespace is open");
        rustix::process::fchdir(&self.home.root).expect("our root directory exists");
        rustix::process::chroot(".").expect("we had this root before");
        // Ignored: the caller's directory may have been removed meanwhile, and we do not depend on it.
        let _ = rustix::process::fchdir(&self.home.directory);
    }
}

/// A nearly empty mount namespace: that of the kernel's devtmpfs thread.
///
/// A new mount namespace starts as a copy of its creator's, so its cost grows with the host's mount table. Copying this
/// one makes the cost constant. `None`: not accessible; the kernel provides it only in the initial pid namespace, and
/// from 6.12.
pub fn small_mount_namespace() -> Option<OwnedFd> {
    let kernel = rustix::process::pidfd_open(Pid::from_raw(2)?, PidfdFlags::empty()).ok().filter(|_| is_kernel_thread("2"))?;
    let first = mounts_of(kernel.as_fd()).ok()?;
    // kdevtmpfs created the second mount namespace, before anything else ran.
    next_mount_namespace(first.as_fd()).ok().filter(|(_, mounts)| *mounts <= 2).map(|(second, _)| second)
}

/// Finds a mount namespace by inode among those created after `from`, even if only a descriptor keeps it alive. `None`:
/// it is gone, or the kernel lacks the ioctl (6.12).
pub fn search_mounts(from: OwnedFd, inode: u64) -> Option<OwnedFd> {
    let mut namespace = from;
    loop {
        if rustix::fs::fstat(&namespace).ok()?.st_ino == inode {
            return Some(namespace);
        }
        namespace = next_mount_namespace(namespace.as_fd()).ok()?.0;
    }
}

/// In a pid namespace other than the initial one, pid 2 may be any process; only kernel threads have no executable.
fn is_kernel_thread(pid: &str) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// The mount namespace that was created after this one, and its number of mounts.
fn next_mount_namespace(namespace: BorrowedFd<'_>) -> Result<(OwnedFd, u32)> {
    neighbour(namespace, Neighbour::Next).map(|(next, info)| (next, info.mounts))
}

#[derive(Clone, Copy, Debug)]
enum Neighbour {
    /// The one created after it.
    Next,
    Previous,
}

/// ENOENT: it is the last or the first one.
fn neighbour(namespace: BorrowedFd<'_>, which: Neighbour) -> Result<(OwnedFd, MountNamespaceInfo)> {
    const NS_MNT_GET_NEXT: libc::Ioctl = rustix::ioctl::opcode::read::<MountNamespaceInfo>(0xb7, 11) as libc::Ioctl;
    const NS_MNT_GET_PREV: libc::Ioctl = rustix::ioctl::opcode::read::<MountNamespaceInfo>(0xb7, 12) as libc::Ioctl;
    let question = match which {
        Neighbour::Next => NS_MNT_GET_NEXT,
        Neighbour::Previous => NS_MNT_GET_PREV,
    };
    let (result, info) = ask_about_mounts(namespace, question);
    let fd = checked(|| format!("ioctl(NS_MNT_GET, {which:?})"), result.into())?;
    // SAFETY: the call succeeded: a new descriptor that nothing else owns.
    Ok((unsafe { OwnedFd::from_raw_fd(fd as i32) }, info))
}

/// All mount namespaces of the machine that we may change, also those without processes, with the kernel's own ids of them.
/// ENOTTY: the kernel lacks the ioctl (6.12).
pub fn all_mounts() -> Result<Vec<(OwnedFd, u64)>> {
    let mut first = own_mounts()?;
    while let Some((previous, _)) = if_any(neighbour(first.as_fd(), Neighbour::Previous))? {
        first = previous;
    }
    let (result, info) = ask_about_mounts(first.as_fd(), NS_MNT_GET_INFO);
    checked(|| "ioctl(NS_MNT_GET_INFO)".into(), result.into())?;
    let mut all = vec![(first, info.id)];
    while let Some((next, info)) = if_any(neighbour(all[all.len() - 1].0.as_fd(), Neighbour::Next))? {
        all.push((next, info.id));
    }
    Ok(all)
}

fn if_any<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Err(error) if error.errno() == rustix::io::Errno::NOENT => Ok(None),
        answer => answer.map(Some),
    }
}

/// `None`: the kernel lacks the ioctl (6.12).
fn count_mounts(namespace: BorrowedFd<'_>) -> Option<u32> {
    let (result, info) = ask_about_mounts(namespace, NS_MNT_GET_INFO);
    (result >= 0).then_some(info.mounts)
}

const NS_MNT_GET_INFO: libc::Ioctl = rustix::ioctl::opcode::read::<MountNamespaceInfo>(0xb7, 10) as libc::Ioctl;

/// `struct mnt_ns_info` of linux/nsfs.h.
#[repr(C)]
#[derive(Debug)]
struct MountNamespaceInfo {
    size: u32,
    mounts: u32,
    id: u64,
}

fn ask_about_mounts(namespace: BorrowedFd<'_>, question: libc::Ioctl) -> (libc::c_int, MountNamespaceInfo) {
    let mut info = MountNamespaceInfo { size: size_of::<MountNamespaceInfo>() as u32, mounts: 0, id: 0 };
    // SAFETY: the kernel writes at most `size` bytes to `info`, which outlives the call.
    let result = unsafe { libc::ioctl(namespace.as_raw_fd(), question, &raw mut info) };
    (result, info)
}

/// [`small_mount_namespace`] for older kernels: searches all kernel threads.
pub fn search_small_mount_namespace() -> Option<OwnedFd> {
    let threads = std::fs::read_to_string("/proc/2/task/2/children").ok()?;
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let common = namespace("2")?;
    // Only kdevtmpfs has left the kernel threads' common namespace, so comparing one link per thread finds it.
    let pid = threads.split_ascii_whitespace().find(|pid| namespace(pid).is_some_and(|other| other != common))?;
    let is_devtmpfs = std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"kdevtmpfs\n");
    (is_devtmpfs && is_kernel_thread(pid)).then(|| open(&format!("/proc/{pid}/ns/mnt")).ok()).flatten()
}

/// A unix stream socket in an empty network namespace: it connects and binds by path as any other, but cannot reach the
/// host's abstract names.
pub fn unix_socket_apart() -> Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let make = || {
        unshare(UnshareFlags::NEWNET)?;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        call(|| "socket(AF_UNIX)".into(), socket)
    };
    // In a new thread: the network namespace is only that thread's, and is destroyed with the socket.
    let thread = call(|| "clone()".into(), std::thread::Builder::new().stack_size(64 * 1024).spawn(make))?;
    thread.join().unwrap_or_else(|_| Err(crate::Error::new("socket(AF_UNIX)", rustix::io::Errno::NOBUFS)))
}
