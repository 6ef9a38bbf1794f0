//! CPU affinity, scheduling policy and busy-waiting, to start processes with less latency. Threads and pids in,
//! scheduler settings out. Only optimisations: errors are ignored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::CpuSet;

/// Keeps a new thread, and the process that it starts, off its parent's CPU, so that it runs at once: the kernel tends
/// to queue it behind its parent, even while other CPUs are idle.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    /// The original affinity, to be restored.
    all: CpuSet,
}

impl Elsewhere {
    /// `None`: there is no other CPU.
    pub(crate) fn send(thread: libc::pthread_t) -> Option<Self> {
        let all = rustix::thread::sched_getaffinity(None).ok()?;
        if all.count() == 1 {
            ALONE.store(true, Ordering::Relaxed);
            return None;
        }
        let mut others = all;
        others.unset(current_processor()?);
        // SAFETY: the thread was not joined, so its handle is valid; the set is only read, in the kernel's format and
        // with its length.
        let moved = unsafe { libc::pthread_setaffinity_np(thread, size_of::<CpuSet>(), (&raw const others).cast()) };
        (moved == 0).then_some(Self { all })
    }

    /// Restores the affinity of the process.
    pub(crate) fn end(&self, process: Pid) {
        let _ = rustix::thread::sched_setaffinity(Some(process), &self.all);
    }
}

fn current_processor() -> Option<usize> {
    let mut number: libc::c_uint = 0;
    // Not by rustix: looking up the vDSO function takes longer than this system call.
    // SAFETY: the kernel writes one number to the pointer, which outlives the call; the other two may be null.
    let got = unsafe { libc::syscall(libc::SYS_getcpu, &raw mut number, std::ptr::null_mut::<libc::c_uint>(), std::ptr::null_mut::<u8>()) };
    (got == 0).then_some(number as usize)
}

/// Whether this process may use one CPU only.
static ALONE: AtomicBool = AtomicBool::new(false);

/// Polls for something expected soon, so that the CPU does not enter an idle state: waking it takes longer than much of
/// what is waited for here, most of all in a virtual machine. Yields to other processes. Returns nothing: the caller
/// checks again and blocks.
pub fn stay_awake_for(time: Duration, mut is_there: impl FnMut() -> bool) {
    /// Leaves most of the core to its other hardware thread.
    const PAUSES: u32 = 30;
    if ALONE.load(Ordering::Relaxed) {
        // On a single CPU, the other process can only run while we sleep.
        return;
    }
    let start = Instant::now();
    while !is_there() && start.elapsed() < time {
        rustix::thread::sched_yield();
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
    }
}

/// Whether `let_others_first` changed the policy.
static BEHIND: AtomicBool = AtomicBool::new(false);

/// From now on this thread and its children do not preempt others when they wake up (SCHED_BATCH). Otherwise a parent
/// that waits for a process to execute a program would wake up in the middle of that, and preempt it.
pub(crate) fn let_others_first() {
    // SAFETY: reads a number, no pointers.
    if unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } == libc::SCHED_OTHER.into() && set_policy(libc::SCHED_BATCH) {
        BEHIND.store(true, Ordering::Relaxed);
    }
}

/// Restores the default policy before a program is executed that does not expect SCHED_BATCH.
pub fn be_as_others() {
    if BEHIND.load(Ordering::Relaxed) {
        set_policy(libc::SCHED_OTHER);
    }
}

fn set_policy(policy: libc::c_int) -> bool {
    // SAFETY: plain integers, for which all zeroes is valid, and correct: neither policy has a priority.
    let nothing: libc::sched_param = unsafe { std::mem::zeroed() };
    // Not by libc: musl's wrapper always fails with ENOSYS.
    // SAFETY: the kernel reads one sched_param from the pointer, which outlives the call.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const nothing) == 0 }
}
