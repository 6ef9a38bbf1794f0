//! The child process that makes a call, and how long it is waited for. A closure and a deadline in, a [`Bounded`] result
//! out.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;

use crate::bounded_call::starved;
use crate::error::{Error, Result, checked};
use crate::process::{Child, close_all_but, exit_now};

/// How a bounded call ended.
#[derive(Debug)]
pub enum Bounded<T> {
    Done(T),
    Failed(Error),
    /// The deadline passed while the call was blocked. The process was killed; if it is in an uninterruptible wait, it
    /// exits when the kernel lets it.
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

    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> Bounded<U>) -> Bounded<U> {
        match self {
            Self::Done(value) => change(value),
            Self::Failed(error) => Bounded::Failed(error),
            Self::TimedOut => Bounded::TimedOut,
        }
    }
}

impl<T> From<Result<T>> for Bounded<T> {
    fn from(result: Result<T>) -> Self {
        result.map_or_else(Self::Failed, Self::Done)
    }
}

/// Which of our descriptors the child keeps.
pub(crate) enum Descriptors<'a> {
    Only(&'a [RawFd]),
    /// All, because the path may name one, as /dev/stdin does. The child closes the others after opening it.
    Named,
}

pub(crate) fn run<T>(
    text: impl FnOnce() -> String,
    keep: &[RawFd],
    deadline: Instant,
    ask: impl FnOnce() -> rustix::io::Result<T>,
) -> Bounded<T> {
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

impl<T> Pending<T> {
    /// Readable when the call has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.child.pidfd.as_fd()
    }

    pub(crate) fn child(&self) -> &Child {
        &self.child
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
pub(crate) fn send<T, F: FnOnce() -> rustix::io::Result<T>>(descriptors: Descriptors<'_>, ask: F) -> Result<Pending<T>> {
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

pub(crate) fn run_with<T>(
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

pub(crate) fn finish<T>(text: impl FnOnce() -> String, mut sent: Pending<T>, deadline: Instant) -> Bounded<T> {
    if sent.child.ends_by(deadline) || starved::ends_once_it_runs(&sent.child) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    /// Longer than any test takes, however busy the machine is.
    fn in_time() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_call_that_runs_is_waited_for_and_one_that_is_blocked_is_not() {
        let begun = Instant::now();
        let spin = move || {
            while begun.elapsed() < Duration::from_millis(400) {}
            Ok(())
        };
        let answer = run(String::new, &[], begun, spin);
        assert!(matches!(answer, Bounded::Done(())), "{answer:?}");
        assert!(begun.elapsed() >= Duration::from_millis(400));
        let (begun, minute) = (Instant::now(), crate::deadline::timespec(Duration::from_secs(60)));
        let sleep = move || {
            let _ = rustix::thread::nanosleep(&minute);
            Ok(())
        };
        let answer = run(String::new, &[], begun, sleep);
        assert!(matches!(answer, Bounded::TimedOut), "{answer:?}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
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
}
