//! Taking a descriptor of the process that calls, once: what it does with its number from then on is its own problem.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::process::{Pid, PidfdGetfdFlags};
use shorefast_sys as sys;
use sys::seccomp::{self, Notification};

/// A duplicate of what is `number` there. `None`: nothing is, or nobody is there any more.
///
/// Threads are known by number, and a number is used again: what was taken counts only if the caller still waits afterwards.
/// Otherwise it may be the descriptor of any process of the host.
pub fn of(call: &Notification, listener: BorrowedFd<'_>, number: u64) -> sys::Result<Option<OwnedFd>> {
    // An int, of which the kernel looks at the lower half.
    let (Some(tid), Ok(number)) = (Pid::from_raw(call.tid), i32::try_from(number & u64::from(u32::MAX))) else { return Ok(None) };
    let process = sys::process::pidfd_of_thread(tid)?;
    let taken = rustix::process::pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok();
    Ok(taken.filter(|_| seccomp::is_waiting(listener, call.id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsFd as _, AsRawFd as _};

    #[test]
    fn what_was_taken_of_one_who_no_longer_waits_is_dropped() {
        // Nobody waits for this listener, and the number that the caller had is ours now.
        let file = std::fs::File::open("/dev/null").unwrap();
        let call = Notification { id: 1, tid: std::process::id() as i32, number: libc::SYS_mount, arguments: [0; 6] };
        assert!(of(&call, file.as_fd(), file.as_raw_fd() as u64).unwrap().is_none());
    }
}
