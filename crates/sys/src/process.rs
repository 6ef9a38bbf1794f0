//! Starts processes (fork, vfork, clone3 with namespaces), replaces the current one (execve), and waits for or kills
//! children. Closures, programs and descriptors in, a [`Child`] with its pidfd out.

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::error::{Error, Result, checked};

bitflags::bitflags! {
    /// Namespaces that a new process starts in.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fresh: u64 {
        const PID = libc::CLONE_NEWPID as u64;
        const IPC = libc::CLONE_NEWIPC as u64;
        const UTS = libc::CLONE_NEWUTS as u64;
    }
}

#[derive(Debug)]
pub enum Fork {
    Child,
    Parent(Child),
}

/// A child process: its pid, and a pidfd, which cannot refer to a later process with the same pid.
#[derive(Debug)]
pub struct Child {
    pub pid: Pid,
    pub pidfd: OwnedFd,
}

impl Child {
    /// SIGKILL, then wait. For tear-down: a process that is already gone is fine, and one in an uninterruptible wait
    /// for a server is left to the kernel. Returns whether it is gone.
    pub fn kill_and_reap(&self) -> bool {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
        let has_ended = self.ends_by(Instant::now() + TO_DIE);
        if has_ended {
            self.reap();
        }
        has_ended
    }

    /// Whether it has ended before the deadline.
    pub fn ends_by(&self, deadline: Instant) -> bool {
        crate::deadline::is_readable(self.pidfd.as_fd(), deadline).unwrap_or(false)
    }

    /// Waits without a deadline until it ends, and returns its exit code. `None`: a signal killed it.
    pub fn wait(&self) -> Result<Option<u8>> {
        let pidfd = || rustix::process::WaitId::PidFd(self.pidfd.as_fd());
        let ended = rustix::io::retry_on_intr(|| rustix::process::waitid(pidfd(), rustix::process::WaitIdOptions::EXITED));
        let status = crate::call(|| "waitid()".into(), ended)?.and_then(|status| status.exit_status());
        Ok(status.and_then(|code| u8::try_from(code).ok()))
    }

    /// Reaps a process that has ended.
    pub(crate) fn reap(&self) {
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOHANG;
        let _ = rustix::process::waitid(rustix::process::WaitId::PidFd(self.pidfd.as_fd()), options);
    }
}

/// A killed process, and everything in its pid namespace, is gone within milliseconds.
const TO_DIE: Duration = Duration::from_secs(2);

/// Forks into new namespaces. Must be called while the process has one thread: the child continues with a copy of its
/// memory, allocator locks included.
pub fn fork(fresh: Fresh) -> Result<Fork> {
    fork_with(fresh.bits(), None)
}

/// Forks into a cgroup (v2). As for [`fork`], one thread only.
///
/// Moving an existing process instead would make the kernel wait for an RCU grace period.
pub fn fork_into(group: BorrowedFd<'_>) -> Result<Fork> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000; // libc declares it as an int, which is too small for it
    fork_with(CLONE_INTO_CGROUP, Some(group))
}

fn fork_with(flags: u64, group: Option<BorrowedFd<'_>>) -> Result<Fork> {
    assert_single_threaded();
    let mut pidfd: libc::c_int = -1;
    // SAFETY: clone_args is plain integers, for which all zeroes is a valid value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = libc::CLONE_PIDFD as u64 | flags;
    args.pidfd = &raw mut pidfd as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    args.cgroup = group.map_or(0, |group| group.as_raw_fd() as u64);
    // SAFETY: without CLONE_VM this is fork(): the child gets a copy of everything, and there is one thread (asserted
    // above), so no lock is held by a thread that the child lacks. The kernel writes one int to `pidfd`, which outlives
    // the call.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    let pid = checked(|| format!("clone3({flags:#x})"), result)?;
    let Some(pid) = Pid::from_raw(pid as i32) else {
        return Ok(Fork::Child);
    };
    // SAFETY: CLONE_PIDFD succeeded, so the kernel stored a new descriptor that nothing else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Fork::Parent(Child { pid, pidfd }))
}

/// A process in new namespaces (clone(2) flags) that does nothing until it is killed: it keeps the namespaces alive. It
/// is killed when the calling thread dies.
pub(crate) fn idle(fresh: libc::c_int) -> Result<Child> {
    let mut pidfd: libc::c_int = -1;
    // SAFETY: clone_args is plain integers, for which all zeroes is a valid value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = (libc::CLONE_PIDFD | fresh) as u64;
    args.pidfd = &raw mut pidfd as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: without CLONE_VM the child gets a copy of everything. Other threads of ours may hold locks, which stay
    // locked in the child for ever; the child below makes two system calls and takes no lock. The kernel writes one int
    // to `pidfd`, which outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    let pid = checked(|| format!("clone3({fresh:#x})"), result)?;
    let Some(pid) = Pid::from_raw(pid as i32) else {
        // SAFETY: a system call without a pointer.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        loop {
            // SAFETY: the same.
            unsafe { libc::pause() };
        }
    };
    // SAFETY: CLONE_PIDFD succeeded, so the kernel stored a new descriptor that nothing else owns.
    Ok(Child { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } })
}

/// Identifies the current boot. Pids, start times and mount ids of another boot are meaningless.
pub fn boot_id() -> &'static str {
    static BOOT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    BOOT.get_or_init(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim_end().to_owned())
}

/// When a process started, in clock ticks since boot: together with the pid, this identifies it although pids are
/// reused. `None`: it is gone, or exiting and no longer serving.
///
/// Only for a process that is certainly one of Shorefast's. For any other, reading /proc/PID/stat may block for ever:
/// [`crate::bounded_call::starts_of`].
pub fn start_of(pid: Pid) -> Option<u64> {
    // One read is enough. std would read in small steps, because the file claims to be empty.
    let mut buffer = [0; LONGEST_STAT];
    let length = std::fs::File::open(format!("/proc/{}/stat", pid.as_raw_nonzero())).and_then(|mut file| file.read(&mut buffer)).ok()?;
    Start::read(&buffer[..length]).filter(|start| !start.is_exiting).map(|start| start.at)
}

pub(crate) const LONGEST_STAT: usize = 1024;

/// When a process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// In clock ticks since boot.
    pub at: u64,
    pub is_exiting: bool,
}

impl Start {
    /// From the text of /proc/PID/stat. `None`: a zombie. Does not allocate.
    pub(crate) fn read(stat: &[u8]) -> Option<Self> {
        // The process name in parentheses may contain anything, including parentheses.
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        let mut fields = stat.get(name_end + 1..)?.split(|byte| byte.is_ascii_whitespace()).filter(|field| !field.is_empty());
        let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse::<u64>().ok();
        const PF_EXITING: u64 = 4;
        let is_zombie = fields.next()? == b"Z";
        // Counted behind those that were taken.
        let is_exiting = number(fields.nth(5)?)? & PF_EXITING != 0;
        let at = number(fields.nth(12)?)?;
        (!is_zombie).then_some(Self { at, is_exiting })
    }
}

/// A number that no other process has during this boot. `None`: the kernel provides none (before 6.9).
pub fn unique_id(pidfd: BorrowedFd<'_>) -> Option<u64> {
    const PID_FS_MAGIC: rustix::fs::FsWord = 0x5049_4446;
    // Without that filesystem, all pidfds are the same file.
    let has_numbers = rustix::fs::fstatfs(pidfd).is_ok_and(|found| found.f_type == PID_FS_MAGIC);
    has_numbers.then(|| rustix::fs::fstat(pidfd).ok().map(|status| status.st_ino))?
}

/// Whether it has memory: kernel threads have none, and an exiting process has released its memory. Never blocks.
pub fn has_memory(pid: Pid) -> bool {
    let sizes = std::fs::read(format!("/proc/{}/statm", pid.as_raw_nonzero()));
    sizes.is_ok_and(|sizes| sizes.first().is_some_and(|digit| *digit != b'0'))
}

/// The pid of a process in our pid namespace.
pub fn pid_of(pidfd: BorrowedFd<'_>) -> Result<Pid> {
    ask_for_pid(pidfd).map_or_else(|| look_up_pid(pidfd), Ok)
}

/// `None`: the kernel lacks PIDFD_GET_INFO (6.13), or the process is gone.
fn ask_for_pid(pidfd: BorrowedFd<'_>) -> Option<Pid> {
    // SAFETY: plain integers, for which all zeroes is valid.
    let mut info: libc::pidfd_info = unsafe { std::mem::zeroed() };
    info.mask = libc::PIDFD_INFO_PID.into();
    // SAFETY: the kernel writes at most one pidfd_info to the pointer, which outlives the call.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), libc::PIDFD_GET_INFO, &raw mut info) };
    if result == 0 { Pid::from_raw(info.pid.cast_signed()) } else { None }
}

fn look_up_pid(pidfd: BorrowedFd<'_>) -> Result<Pid> {
    let path = format!("/proc/thread-self/fdinfo/{}", pidfd.as_raw_fd());
    let text = crate::call(|| format!("read({path:?})"), std::fs::read_to_string(&path))?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok());
    pid.filter(|pid| *pid > 0).and_then(Pid::from_raw).ok_or_else(|| Error::new(format!("Pid in {path:?}"), rustix::io::Errno::SRCH))
}

/// Checked in debug builds only.
pub fn assert_single_threaded() {
    #[cfg(debug_assertions)]
    {
        let threads = || std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        // A joined thread has released its memory, but may still be listed for a moment.
        let patience = Instant::now() + Duration::from_secs(5);
        while threads() > 1 && Instant::now() < patience {
            std::thread::yield_now();
        }
        assert_eq!(threads(), 1, "other threads are alive");
    }
}

/// Starts a process that shares our memory, as vfork does, and waits until it has executed a program. `body` ends with
/// that execve; its error is returned here. No page tables are copied, which is what makes fork expensive, and the
/// child uses none of our memory when this returns.
pub fn vfork(body: impl FnOnce() -> Result<Infallible>) -> Result<Child> {
    /// Enough for arranging descriptors; untouched pages cost nothing.
    const STACK: usize = 64 * 1024;

    let mut error = None;
    let mut pidfd: libc::c_int = -1;
    let mut stack = stack(STACK);
    let pid = share_memory(0, stack.spare_capacity_mut(), &raw mut pidfd, || error = body().err())?;
    // SAFETY: CLONE_PIDFD succeeded, so the kernel stored a new descriptor that nothing else owns.
    let child = Child { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } };
    match error {
        None => Ok(child),
        Some(error) => {
            child.kill_and_reap();
            Err(error)
        }
    }
}

/// Memory for a stack, with the alignment that the ABI requires.
pub(crate) fn stack(bytes: usize) -> Vec<u128> {
    Vec::with_capacity(bytes / size_of::<u128>())
}

/// Runs `body` in a process that shares our memory, while this thread is suspended until that process executes a
/// program or exits. Other threads continue. The kernel stores its pidfd at `pidfd` before it runs. `more`: additional
/// clone(2) flags, for what else to share or which namespaces to create.
pub(crate) fn share_memory<F: FnOnce()>(
    more: libc::c_int,
    stack: &mut [MaybeUninit<u128>],
    pidfd: *mut libc::c_int,
    body: F,
) -> Result<Pid> {
    extern "C" fn run<F: FnOnce()>(body: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `share_memory` passes a live Option<F> and is suspended until this process has left its memory, so
        // nothing else accesses it.
        if let Some(body) = unsafe { &mut *body.cast::<Option<F>>() }.take() {
            body();
        }
        exit_now(127)
    }
    let mut body = Some(body);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD | more;
    let top = stack.as_mut_ptr_range().end;
    // SAFETY: the child runs on its own stack, which outlives the child's use of this memory, because CLONE_VFORK
    // suspends this thread until the child has left it. The child uses this thread's thread-local storage, such as
    // errno, meanwhile. The kernel writes one int to `pidfd`.
    let result = unsafe { libc::clone(run::<F>, top.cast(), flags, (&raw mut body).cast(), pidfd) };
    let pid = checked(|| format!("clone(CLONE_VFORK, {more:#x})"), result.into())?;
    Pid::from_raw(pid as i32).ok_or_else(|| Error::new("clone(CLONE_VFORK)", rustix::io::Errno::SRCH))
}

/// Replaces this process by the program at `path`.
pub fn exec(path: &CStr, argv: &[CString], environment: &[CString]) -> Result<Infallible> {
    crate::scheduling::be_as_others();
    let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
    let (argv, environment) = (pointers(argv), pointers(environment));
    // SAFETY: both arrays end with NULL and, like the strings they point to, outlive the call.
    let result = unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
    checked(|| format!("execve({path:?})"), result.into())?;
    unreachable!("execve returned without an error")
}

/// Replaces this process by the program that `file` refers to.
pub fn exec_fd(file: BorrowedFd<'_>, argv: &[&CStr]) -> Result<Infallible> {
    crate::scheduling::be_as_others();
    let pointers: Vec<_> = argv.iter().map(|arg| arg.as_ptr()).chain([std::ptr::null()]).collect();
    let environment = [std::ptr::null::<libc::c_char>()];
    let empty = c"";
    // SAFETY: both arrays end with NULL and, like the strings they point to, outlive the call.
    let result = unsafe {
        libc::syscall(libc::SYS_execveat, file.as_raw_fd(), empty.as_ptr(), pointers.as_ptr(), environment.as_ptr(), libc::AT_EMPTY_PATH)
    };
    checked(|| format!("execveat({})", crate::cstr_text(argv[0])), result)?;
    unreachable!("execveat returned without an error")
}

/// The same with an environment.
pub fn exec_fd_with(file: BorrowedFd<'_>, argv: &[CString], environment: &[CString]) -> Result<Infallible> {
    let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
    let (argv, environment, empty) = (pointers(argv), pointers(environment), c"");
    // SAFETY: both arrays end with NULL and, like the strings they point to, outlive the call.
    let result = unsafe {
        libc::syscall(libc::SYS_execveat, file.as_raw_fd(), empty.as_ptr(), argv.as_ptr(), environment.as_ptr(), libc::AT_EMPTY_PATH)
    };
    checked(|| "execveat()".into(), result)?;
    unreachable!("execveat returned without an error")
}

/// Exits at once, without running the exit handlers that the parent registered.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes an integer and does not return.
    unsafe { libc::_exit(code) }
}

/// Resets signal dispositions and mask to what a freshly started program expects: Rust ignores SIGPIPE, and ignored
/// signals stay ignored across execve. (Real-time signals are left: they have no predefined meaning, and no program
/// ignores them for its children.)
pub fn reset_signals() {
    for signal in 1..32 {
        // SAFETY: SIG_DFL is valid for every signal; those that cannot be changed give EINVAL.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: an all-zero sigset_t is the empty set on Linux.
    let none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `none` is a valid set; the old mask is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
}

/// Moves descriptors to fixed numbers, open across execve; standard ones that are not named become /dev/null. Called by
/// the child of a fork right before execve. `kept` is moved out of the way and stays close-on-exec.
pub fn lay_out(places: &[(BorrowedFd<'_>, i32)], kept: Option<BorrowedFd<'_>>) -> Result<Option<OwnedFd>> {
    /// Above every fixed number.
    const CLEAR: i32 = 16;
    let lift = |fd: BorrowedFd<'_>| {
        crate::call(|| format!("fcntl(fd {}, F_DUPFD_CLOEXEC)", fd.as_raw_fd()), rustix::io::fcntl_dupfd_cloexec(fd, CLEAR))
    };
    close_all_on_exec()?;
    let kept = kept.map(lift).transpose()?;
    let lifted: Vec<_> = places.iter().map(|(fd, to)| Ok((lift(*fd)?, *to))).collect::<Result<_>>()?;
    let null = {
        // Closed again before its number, which may be one of the fixed ones, is replaced.
        let null = crate::call(|| "open(\"/dev/null\")".into(), std::fs::File::options().read(true).write(true).open("/dev/null"))?;
        lift(null.as_fd())?
    };
    (0..3).try_for_each(|standard| place_fd(null.as_fd(), standard))?;
    lifted.iter().try_for_each(|(fd, to)| place_fd(fd.as_fd(), *to))?;
    Ok(kept)
}

/// In a process with its own descriptor table: closes all others. `keep` must be sorted; -1 entries are ignored.
pub fn close_all_but(keep: &[RawFd]) {
    let close = |from: i32, to: i32| {
        if from <= to {
            // SAFETY: three integers. The table is this process's own copy, and only kept descriptors are used
            // afterwards.
            unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
        }
    };
    let mut next = 0;
    for fd in keep.iter().copied().filter(|fd| *fd >= 0) {
        close(next, fd - 1);
        next = fd + 1;
    }
    close(next, i32::MAX);
}

/// In a process with its own descriptor table: replaces the standard descriptors by /dev/null.
pub fn take_standard_numbers() -> Result<()> {
    let null = {
        // Closed again before its number, which may be one of these, is replaced.
        let null = crate::call(|| "open(\"/dev/null\")".into(), std::fs::File::options().read(true).write(true).open("/dev/null"))?;
        crate::call(|| "dup(\"/dev/null\")".into(), rustix::io::fcntl_dupfd_cloexec(&null, 3))?
    };
    (0..3).try_for_each(|standard| place_fd(null.as_fd(), standard))
}

/// Sets close-on-exec on every descriptor except the standard ones.
pub fn close_all_on_exec() -> Result<()> {
    // SAFETY: three integers; a flag is set on descriptors, none is closed.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    checked(|| "close_range(3, CLOSE_RANGE_CLOEXEC)".into(), result).map(drop)
}

fn place_fd(from: BorrowedFd<'_>, to: i32) -> Result<()> {
    // SAFETY: replacing descriptor `to` is the intent; this runs in a forked child that owns its whole table and uses
    // only the placed descriptors afterwards.
    let result = unsafe { libc::dup2(from.as_raw_fd(), to) };
    checked(|| format!("dup2(fd {}, {to})", from.as_raw_fd()), result.into()).map(drop)
}

/// Kills every process of the current user. The caller must have changed its uid first: the kernel then restricts
/// `kill(-1)` to processes of that user.
pub fn kill_all_of_this_user() {
    // SAFETY: kill takes two integers.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// A pidfd for the thread group of `tid`. Before Linux 6.9 there are no pidfds of threads other than the group leader,
/// so the leader is looked up.
pub fn pidfd_of_thread(tid: Pid) -> Result<OwnedFd> {
    let open = |pid: Pid, flags: u32| {
        // SAFETY: two integers in, a descriptor or an error out.
        let result = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw_nonzero().get(), flags) };
        checked(|| format!("pidfd_open({})", pid.as_raw_nonzero()), result)
            // SAFETY: the call succeeded: a new descriptor that nothing else owns.
            .map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
    };
    const PIDFD_THREAD: u32 = libc::O_EXCL as u32;
    open(tid, PIDFD_THREAD).or_else(|_| open(group_leader(tid)?, 0))
}

fn group_leader(tid: Pid) -> Result<Pid> {
    let path = format!("/proc/{}/status", tid.as_raw_nonzero());
    let status = crate::call(|| format!("read({path:?})"), std::fs::read_to_string(&path))?;
    let leader = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    leader.and_then(Pid::from_raw).ok_or_else(|| Error::new(format!("Tgid in {path:?}"), rustix::io::Errno::SRCH))
}
