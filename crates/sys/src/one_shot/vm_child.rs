//! A process that shares our memory until it executes a program, but has its own descriptors, directories, signal
//! handlers and credentials. A closure goes in, a [`VmChild`] with pid and pidfd comes out.
//!
//! What makes fork expensive is memory: page tables are copied, each page is copied when one side writes to it, and the
//! program's own pages fault again. None of that happens here. A thread starts the process as vfork does: the thread is
//! suspended until the process has left our memory, and lends it its thread-local storage, such as errno. To the other
//! threads it looks as if that thread continued, in a separate process.
//!
//! The process may be killed at any moment. So a process that shares our memory must never hold a lock that others wait
//! for: it allocates in an arena, and shares nothing with other threads except what it was given.

use std::cell::OnceCell;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex;

use crate::error::{Error, Result};
use crate::one_shot::arena::{self, Arena};
use crate::one_shot::{populate, thread};
use crate::process::{self, Child, Fresh};
use crate::scheduling::{self, Elsewhere};

/// A process that was started, and may not exist yet. Dropping this does not end it.
#[derive(Debug)]
pub struct VmChild {
    news: Arc<News>,
    child: OnceCell<Child>,
    thread: libc::pthread_t,
    elsewhere: Option<Elsewhere>,
}

/// What the starting thread reports.
#[derive(Debug)]
struct News {
    /// [`NOTHING_YET`], [`BORN`], or an errno.
    state: AtomicU32,
    /// Where the kernel stores the pidfd, before the process runs.
    pidfd: AtomicI32,
}

const NOTHING_YET: u32 = 0;
const BORN: u32 = u32::MAX;

// A futex rather than a primitive of std: those would set up thread-local memory before the thread is started that we
// wait for.
impl News {
    fn tell(&self, state: u32) {
        self.state.store(state, Ordering::Release);
        let _ = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
    }

    fn wait(&self, deadline: Instant) -> u32 {
        loop {
            let state = self.state.load(Ordering::Acquire);
            let left = deadline.saturating_duration_since(Instant::now());
            if state != NOTHING_YET || left.is_zero() {
                return state;
            }
            let left = futex::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let _ = futex::wait(&self.state, futex::Flags::PRIVATE, NOTHING_YET, Some(&left));
        }
    }
}

/// A machine that takes longer than this to start a thread and a process has other problems.
const PATIENCE: Duration = Duration::from_secs(30);

/// Most closures need a few pages; untouched ones cost nothing.
const STACK: usize = 1 << 20;

/// Stack that the rest of a mount needs.
const FRAMES: usize = 28 << 10;
/// Heap that it needs, including what the process gets.
const HEAP: usize = 108 << 10;

/// Starts a process in new namespaces. `life` is its body, which ends by executing a program. `holdings` runs in the
/// new thread before, and its result stays alive for the process. From now on the caller is multi-threaded, if only for
/// a moment.
///
/// Its memory is never freed: unmapping pages of a process that runs on two CPUs interrupts both (TLB shootdown).
pub fn start<H>(fresh: Fresh, holdings: impl FnOnce() -> H + Send + 'static, life: impl FnOnce(&H) + Send + 'static) -> Result<VmChild> {
    arena::open_pool();
    let news = Arc::new(News { state: AtomicU32::new(NOTHING_YET), pidfd: AtomicI32::new(-1) });
    let told = Arc::clone(&news);
    let thread = thread::start(move || {
        scheduling::let_others_first();
        let holdings = holdings();
        let started = Arena::new().and_then(|arena| {
            let arena = Box::leak(Box::new(arena));
            let stack = arena::stack(STACK)?;
            let _lent = arena.lend();
            process::share_memory(fresh.bits() as i32, stack, told.pidfd.as_ptr(), || {
                told.tell(BORN);
                life(&holdings);
            })
        });
        if let Err(error) = started {
            told.tell(error.errno().raw_os_error().unsigned_abs());
        }
    })?;
    let elsewhere = Elsewhere::send(thread);
    // Not earlier: what the process does takes longer, and should start first.
    populate::expect_stack(FRAMES);
    populate::expect_heap(HEAP);
    Ok(VmChild { news, child: OnceCell::new(), thread, elsewhere })
}

impl VmChild {
    /// Waits until the process exists.
    pub fn child(&self) -> Result<&Child> {
        if let Some(child) = self.child.get() {
            return Ok(child);
        }
        match self.news.wait(Instant::now() + PATIENCE) {
            BORN => {}
            NOTHING_YET => return Err(Error::new("clone(CLONE_VFORK)", Errno::TIMEDOUT)),
            errno => return Err(Error::new("clone(CLONE_VFORK)", Errno::from_raw_os_error(errno.cast_signed()))),
        }
        let pidfd = match self.news.pidfd.swap(-1, Ordering::Relaxed) {
            -1 => return Err(Error::new("clone(CLONE_PIDFD)", Errno::BADF)),
            // SAFETY: the process exists, so the kernel has stored a new descriptor there, and the swap made us its
            // only owner.
            number => unsafe { OwnedFd::from_raw_fd(number) },
        };
        let pid = process::pid_of(pidfd.as_fd())?;
        Ok(self.child.get_or_init(|| Child { pid, pidfd }))
    }

    /// Restores the CPU affinity, because we are about to wait for the process.
    pub fn come_back(&self) -> Result<()> {
        let process = self.child()?.pid;
        if let Some(elsewhere) = &self.elsewhere {
            elsewhere.end(process);
        }
        Ok(())
    }

    /// Kills it, and waits until it and its thread are gone. A process that cannot be killed is left to the kernel.
    pub fn end(self) {
        if let Ok(child) = self.child()
            && child.kill_and_reap()
        {
            // SAFETY: a thread that was neither joined nor detached; it ends, because the process that it waits for
            // has.
            unsafe { libc::pthread_join(self.thread, std::ptr::null_mut()) };
        }
    }

    /// From now on it is supervised as any other child.
    pub fn into_child(self) -> Result<Child> {
        self.child()?;
        self.child.into_inner().ok_or_else(|| Error::new("clone(CLONE_VFORK)", Errno::SRCH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn shares_memory_but_not_descriptors() {
        let seen = Arc::new(AtomicI32::new(0));
        let (sees, file) = (Arc::clone(&seen), std::fs::File::open("/dev/null").unwrap());
        let number = file.as_raw_fd();
        let vm_child = start(
            Fresh::empty(),
            || vec![7u8; 3],
            move |holdings| {
                process::close_all_but(&[0, 1, 2]);
                let own = format!("{}, {}", rustix::process::getpid().as_raw_nonzero(), holdings.len());
                sees.store(own.len() as i32, Ordering::SeqCst);
            },
        );
        let vm_child = vm_child.unwrap();
        assert_ne!(vm_child.child().unwrap().pid, rustix::process::getpid());
        assert!(vm_child.child().unwrap().ends_by(Instant::now() + PATIENCE));
        assert!(seen.load(Ordering::SeqCst) > 3, "it wrote where we read");
        // SAFETY: only asks whether it is open.
        let still_open = rustix::io::fcntl_getfd(unsafe { std::os::fd::BorrowedFd::borrow_raw(number) });
        assert!(still_open.is_ok(), "what it closed was its own");
        vm_child.end();
    }

    #[test]
    fn one_that_never_ends_can_be_ended() {
        let allocate_for_ever = |(): &()| {
            for size in (1..1000).cycle() {
                std::hint::black_box(vec![0u8; size]);
                std::thread::yield_now();
            }
        };
        let vm_child = start(Fresh::empty(), || (), allocate_for_ever).unwrap();
        vm_child.child().unwrap();
        vm_child.end();
        // Memory that it may have been using when it was killed is still usable.
        assert_eq!(vec![1u8; 1 << 16].iter().map(|byte| u32::from(*byte)).sum::<u32>(), 1 << 16);
    }
}
