//! In: a descriptor number of the calling process. Out: a duplicate, taken once: later changes to its descriptor table have no effect (no
//! TOCTOU).

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::process::{Pid, PidfdGetfdFlags};
use shorefast_sys as sys;
use sys::seccomp::{self, Notification};

/// A duplicate of descriptor `number`. `None`: it is not open, or the caller is gone.
///
/// Thread ids are reused: the duplicate counts only if the caller still waits afterwards. Otherwise it may be the descriptor of any process
/// of the host.
pub fn of(call: &Notification, listener: BorrowedFd<'_>, number: u64) -> sys::Result<Option<OwnedFd>> {
    // An int: the kernel uses only the lower half of the register.
    let (Some(tid), Ok(number)) = (Pid::from_raw(call.tid), i32::try_from(number & u64::from(u32::MAX))) else { return Ok(None) };
    let process = sys::process::pidfd_of_thread(tid)?;
    // Does not wait: only a process in execve(2) makes it, and this one is in another call.
    let taken = rustix::process::pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok();
    Ok(taken.filter(|_| seccomp::is_waiting(listener, call.id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsFd as _, AsRawFd as _};

    #[test]
    fn what_was_taken_of_one_who_no_longer_waits_is_dropped() {
        // This listener has no caller, and the caller's tid is ours.
        let file = std::fs::File::open("/dev/null").unwrap();
        let call = Notification { id: 1, tid: std::process::id() as i32, number: libc::SYS_mount, arguments: [0; 6] };
        assert!(of(&call, file.as_fd(), file.as_raw_fd() as u64).unwrap().is_none());
    }
}
