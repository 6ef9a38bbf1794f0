//! In: a sandbox's first process. Out: the process that serves its mount. A client may leave several to the sandbox's pid 1 (sshfs leaves
//! ssh), and only the end of this one says whether all was written.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
use shorefast_sys as sys;

/// For display: the process that serves, or else the first.
pub fn of(init: i32) -> Option<i32> {
    serving(init).or_else(|| children(init).first().copied())
}

/// Among the children of the sandbox's first process, the one that holds the FUSE device. Its end is the end of the mount's service.
pub fn serving(init: i32) -> Option<i32> {
    match children(init)[..] {
        [only] => Some(only),
        ref several => several.iter().copied().find(|pid| fuse_of(*pid).is_some()),
    }
}

fn children(init: i32) -> Vec<i32> {
    let children = fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap_or_default();
    children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The same open file as the client's: a connection ends with the last process that has it open.
pub fn connection_of(pid: i32) -> Option<OwnedFd> {
    let process = rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    let taken = rustix::process::pidfd_getfd(&process, fuse_of(pid)?, PidfdGetfdFlags::empty()).ok()?;
    // The client may have closed it and opened something else at that number.
    sys::fuse::is_device(taken.as_fd()).then_some(taken)
}

/// Its pid in its own pid namespace.
pub fn pid_inside(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_ascii_whitespace().last()?.parse().ok()
}

/// The number of its descriptor of the FUSE device.
fn fuse_of(pid: i32) -> Option<i32> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let is_fuse = |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|target| target.ends_with("dev/fuse"));
    descriptors.flatten().find(is_fuse)?.file_name().to_str()?.parse().ok()
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
