//! A process that waits aside, in our memory, until we have ended; then it becomes a program.
//!
//! It costs next to nothing to make, and our end, for which our caller waits, costs less: the clearing away of that memory, most
//! of what ending takes, is left to it. It has nothing of its own but a stack, so it makes system calls by way of
//! rustix only, and allocates nothing (see [`crate::errand`]).

use std::ffi::{CStr, CString};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::arena;
use crate::error::{Error, Result, checked};
use crate::process::{Child, close_all_but, exit_now};

/// Most that a program is given.
pub const PLACES: usize = 8;

/// What the process needs to know. Never freed: it may outlive us.
struct Task {
    program: RawFd,
    arguments: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    places: [(RawFd, RawFd); PLACES],
    count: usize,
}

/// Above every number that is laid out.
const CLEAR: RawFd = 16;
const STACK: usize = 64 << 10;
/// Our caller has just been woken up by our end, and has more to do: executing a program and clearing our memory away can wait.
const FIRST_THE_CALLER: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// The process will be `program` as soon as the other end of the first of `places`, a socket, is closed: at our end at the latest.
/// `places`: descriptors and the numbers at which the program expects them, below 16.
pub fn start(program: BorrowedFd<'_>, arguments: Vec<CString>, places: &[(BorrowedFd<'_>, RawFd)]) -> Result<Child> {
    extern "C" fn begin(task: *mut libc::c_void) -> libc::c_int {
        // SAFETY: a Task that is never freed, and that nobody changes.
        let _ = wait_aside(unsafe { &*task.cast::<Task>() });
        exit_now(127)
    }
    let mut task = Task { program: program.as_raw_fd(), arguments, argv: Vec::new(), places: [(-1, -1); PLACES], count: places.len() };
    for (slot, (fd, number)) in task.places.iter_mut().zip(places) {
        *slot = (fd.as_raw_fd(), *number);
    }
    task.argv = task.arguments.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
    let task: *mut Task = Box::leak(Box::new(task));
    let stack: &mut [MaybeUninit<u128>] = arena::stack(STACK)?;
    let mut pidfd: libc::c_int = -1;
    let flags = libc::CLONE_VM | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: the child runs on a stack of its own, which is never taken away, as little as its task. What belongs to a thread is
    // shared with the calling one, so it uses nothing of that. The kernel writes one int to `pidfd`.
    let result = unsafe { libc::clone(begin, stack.as_mut_ptr_range().end.cast(), flags, task.cast(), &raw mut pidfd) };
    let pid = checked(|| "clone(CLONE_VM)".into(), result.into())?;
    let pid = Pid::from_raw(pid as i32).ok_or_else(|| Error::new("clone(CLONE_VM)", Errno::SRCH))?;
    // SAFETY: CLONE_PIDFD succeeded, so the kernel stored a new descriptor that nobody else owns.
    Ok(Child { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } })
}

fn wait_aside(task: &Task) -> rustix::io::Result<()> {
    let program = lay_out(task)?;
    rustix::process::setsid()?;
    rustix::process::chdir(c"/")?;
    // SAFETY: laid out above, and open until this process ends.
    let control = unsafe { BorrowedFd::borrow_raw(task.places[0].1) };
    while let Err(Errno::INTR) = rustix::event::poll(&mut [PollFd::new(&control, PollFlags::empty())], None) {}
    let mut left = FIRST_THE_CALLER;
    while let rustix::thread::NanosleepRelativeResult::Interrupted(rest) = rustix::thread::nanosleep(&left) {
        left = rest;
    }
    let (empty, nothing): (&CStr, _) = (c"", [std::ptr::null::<libc::c_char>()]);
    // SAFETY: both arrays end with NULL and live as long as this process. Should it fail, errno is written, which may be another
    // thread's; but nothing of a sealed program in memory is missing.
    unsafe {
        libc::syscall(libc::SYS_execveat, program, empty.as_ptr(), task.argv.as_ptr(), nothing.as_ptr(), libc::AT_EMPTY_PATH);
    }
    Ok(())
}

/// Every descriptor at its number, standard ones at /dev/null, the program above them to be closed when it is executed, and no other.
fn lay_out(task: &Task) -> rustix::io::Result<RawFd> {
    let lift = |fd: RawFd| {
        // SAFETY: open in the table that this process has a copy of.
        let lifted = rustix::io::fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(fd) }, CLEAR)?;
        Ok(ManuallyDrop::new(lifted).as_raw_fd())
    };
    let program = lift(task.program)?;
    let mut lifted = [-1; PLACES];
    for (lifted, (fd, _)) in lifted.iter_mut().zip(&task.places[..task.count]) {
        *lifted = lift(*fd)?;
    }
    let null = ManuallyDrop::new(rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?);
    let null = lift(null.as_raw_fd())?;
    (0..3).try_for_each(|standard| place(null, standard))?;
    let mut keep = [-1; PLACES + 4];
    (keep[0], keep[1], keep[2], keep[3]) = (0, 1, 2, program);
    for (slot, (fd, (_, number))) in keep[4..].iter_mut().zip(lifted.iter().zip(&task.places[..task.count])) {
        place(*fd, *number)?;
        *slot = *number;
    }
    keep.sort_unstable();
    close_all_but(&keep);
    Ok(program)
}

fn place(from: RawFd, to: RawFd) -> rustix::io::Result<()> {
    // SAFETY: what it was in this table is replaced, which is the intent; nobody here owned it, and nobody does afterwards.
    let mut to = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(to) });
    // SAFETY: open in this process.
    rustix::io::dup2(unsafe { BorrowedFd::borrow_raw(from) }, &mut to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;
    use std::time::{Duration, Instant};

    #[test]
    fn becomes_the_program_when_its_other_end_is_closed_and_not_before() {
        let (control, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let (mut output, write) = std::io::pipe().unwrap();
        let shell = std::fs::File::open("/bin/sh").unwrap();
        let arguments = ["sh", "-c", "read word <&3; echo $word $(ls /proc/self/fd | wc -l) >&5"].map(|word| CString::new(word).unwrap());
        let places = [(theirs.as_fd(), 3), (write.as_fd(), 5)];
        let child = start(shell.as_fd(), arguments.into(), &places).unwrap();
        drop((theirs, write));
        std::io::Write::write_all(&mut (&control), b"now\n").unwrap();
        assert!(!child.ends_by(Instant::now() + Duration::from_millis(100)), "told, but the other end is open");
        drop(control);
        let mut said = String::new();
        output.read_to_string(&mut said).unwrap();
        // The standard ones, the two places, what ls reads, and the pipe to wc takes the place of one.
        assert_eq!(said.trim(), "now 6");
        assert!(child.ends_by(Instant::now() + Duration::from_secs(60)));
        child.reap();
    }
}
