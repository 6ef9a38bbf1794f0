//! Waits for SIGTERM and SIGINT. A program that is pid 1 of a container gets no default action for them, so it has to
//! handle them itself.

use std::time::Duration;

use crate::error::{Result, checked};

/// From its creation on, these signals are blocked and stay pending until they are received. For a process with one
/// thread.
#[derive(Debug)]
pub struct Termination {
    set: libc::sigset_t,
}

impl Termination {
    pub fn listen() -> Result<Self> {
        // SAFETY: an all-zero sigset_t is the empty set on Linux.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        for signal in [libc::SIGTERM, libc::SIGINT] {
            // SAFETY: `set` is a valid set, and the number is that of a signal.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        // SAFETY: `set` is a valid set; the old mask is not asked for.
        let result = unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        checked(|| "sigprocmask(SIG_BLOCK)".into(), result.into())?;
        Ok(Self { set })
    }

    /// True: a signal to terminate arrived within this time.
    pub fn comes_within(&self, time: Duration) -> bool {
        let time = libc::timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
        // SAFETY: both pointers are to live values; details of the signal are not requested.
        unsafe { libc::sigtimedwait(&raw const self.set, std::ptr::null_mut(), &raw const time) > 0 }
    }
}
