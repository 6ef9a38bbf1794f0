//! In: a sandbox's first process. Out: the process that serves its mount. A client may leave several to the sandbox's pid 1 (sshfs leaves
//! ssh), and only the end of this one says whether all was written.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use shorefast_sys as sys;
use sys::bounded_call::Bounded;

/// For each process of a client: one that hangs in execve(2) serves nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// For display: the process that serves, or else the first.
pub fn of(init: i32) -> Option<i32> {
    serving(init).or_else(|| children(init).first().copied())
}

/// Among the children of the sandbox's first process, the one that holds the FUSE device. Its end is the end of the mount's service.
pub fn serving(init: i32) -> Option<i32> {
    match children(init)[..] {
        [only] => Some(only),
        ref several => several.iter().copied().find(|pid| connection_of(*pid, Instant::now() + PATIENCE).is_some()),
    }
}

fn children(init: i32) -> Vec<i32> {
    let children = fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap_or_default();
    children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The same open file as the client's: a connection ends with the last process that has it open.
pub fn connection_of(pid: i32, deadline: Instant) -> Option<OwnedFd> {
    match sys::bounded_call::fuse_device_of(Pid::from_raw(pid)?, deadline) {
        Bounded::Done(device) => Some(device).filter(|device| sys::fuse::is_device(device.as_fd())),
        Bounded::Failed(_) | Bounded::TimedOut => None,
    }
}

/// Its pid in its own pid namespace.
pub fn pid_inside(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_ascii_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_pid_of_its_own() {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        assert_eq!(pid_inside(own), Some(own));
    }
}
