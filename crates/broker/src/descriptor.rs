//! Taking a descriptor of the process that calls, once: what it does with its number from then on is its own problem.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdGetfdFlags};
use shorefast_sys as sys;
use sys::seccomp::Notification;

/// A duplicate of what is `number` there. `None`: nothing is, or nobody is there any more.
pub fn of(call: &Notification, number: u64) -> sys::Result<Option<OwnedFd>> {
    // An int, of which the kernel looks at the lower half.
    let (Some(tid), Ok(number)) = (Pid::from_raw(call.tid), i32::try_from(number & u64::from(u32::MAX))) else { return Ok(None) };
    let process = sys::process::pidfd_of_thread(tid)?;
    Ok(rustix::process::pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok())
}
