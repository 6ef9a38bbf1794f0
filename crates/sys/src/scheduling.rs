//! Who runs where, and who first. Only a matter of speed: what fails here is left.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::CpuSet;

/// Keeps a new thread, and the process that it starts, off the processor of its parent, so that it starts at once: the kernel tends
/// to put it behind its parent, even while other processors have nothing to do.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    /// Where everybody may run in the end.
    all: CpuSet,
}

impl Elsewhere {
    /// `None`: there is no other processor.
    pub(crate) fn send(thread: libc::pthread_t) -> Option<Self> {
        let all = rustix::thread::sched_getaffinity(None).ok()?;
        if all.count() == 1 {
            ALONE.store(true, Ordering::Relaxed);
            return None;
        }
        let mut others = all;
        others.unset(current_processor()?);
        // SAFETY: the thread was not joined, so its handle is valid; the set is read only, in the kernel's form and with its length.
        let moved = unsafe { libc::pthread_setaffinity_np(thread, size_of::<CpuSet>(), (&raw const others).cast()) };
        (moved == 0).then_some(Self { all })
    }

    /// The process may go where its parent may.
    pub(crate) fn end(&self, process: Pid) {
        let _ = rustix::thread::sched_setaffinity(Some(process), &self.all);
    }
}

fn current_processor() -> Option<usize> {
    let mut number: libc::c_uint = 0;
    // Not by rustix: to find the kernel's faster way takes longer than this one.
    // SAFETY: the kernel writes one number to the pointer, which outlives the call; the other two may be null.
    let got = unsafe { libc::syscall(libc::SYS_getcpu, &raw mut number, std::ptr::null_mut::<libc::c_uint>(), std::ptr::null_mut::<u8>()) };
    (got == 0).then_some(number as usize)
}

/// Whether all of us share one processor.
static ALONE: AtomicBool = AtomicBool::new(false);

/// Waits for what should be there soon, so that the processor does not go to sleep: to wake it up takes longer than much of what is
/// waited for here, most of all in a virtual machine. Lets everybody else run. Says nothing: who waits looks again.
pub fn stay_awake_for(time: Duration, mut is_there: impl FnMut() -> bool) {
    /// So that whoever shares a core with us gets the most of it.
    const PAUSES: u32 = 30;
    if ALONE.load(Ordering::Relaxed) {
        // Whoever is waited for can work only while we sleep.
        return;
    }
    let start = Instant::now();
    while !is_there() && start.elapsed() < time {
        rustix::thread::sched_yield();
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
    }
}

/// Whether `let_others_first` was heard.
static BEHIND: AtomicBool = AtomicBool::new(false);

/// From now on this thread and what it starts interrupt nobody when they wake up: who waits for a process to execute a program
/// would wake up in the middle of that, and take its processor.
pub(crate) fn let_others_first() {
    // SAFETY: asks for a number.
    if unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } == libc::SCHED_OTHER.into() && set_policy(libc::SCHED_BATCH) {
        BEHIND.store(true, Ordering::Relaxed);
    }
}

/// For a program that is about to be executed, and knows nothing of that.
pub fn be_as_others() {
    if BEHIND.load(Ordering::Relaxed) {
        set_policy(libc::SCHED_OTHER);
    }
}

fn set_policy(policy: libc::c_int) -> bool {
    // SAFETY: plain integers, for which all zeroes is valid, and right: no policy here has a priority.
    let nothing: libc::sched_param = unsafe { std::mem::zeroed() };
    // Not by libc: musl has these only to say that it has not.
    // SAFETY: the kernel reads one sched_param from the pointer, which outlives the call.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const nothing) == 0 }
}
