//! A process of the host, identified by pid and start time.

use std::os::fd::AsFd as _;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use shorefast_sys as sys;

/// A process that cannot be confused with a later one of the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    /// In clock ticks since boot.
    pub started: u64,
}

impl Process {
    pub fn of(pid: i32) -> Option<Self> {
        let started = sys::process::start_of(rustix::process::Pid::from_raw(pid)?)?;
        Some(Self { pid, started })
    }

    pub fn own() -> Option<Self> {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// Kills it, and no process that has reused its pid. True: it has ended by the deadline.
    pub fn end(&self, deadline: Instant) -> bool {
        let Some(pid) = rustix::process::Pid::from_raw(self.pid) else { return true };
        let Ok(pidfd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else { return true };
        // Checked after the pidfd is open: it closes the pid reuse race.
        if !self.is_alive() {
            return true;
        }
        let _ = rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL);
        sys::deadline::is_readable(pidfd.as_fd(), deadline).unwrap_or(false)
    }

    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Alive, but SIGKILL is pending: it runs no more code in user space.
    pub fn is_being_killed(&self) -> bool {
        const SIGKILL: u64 = 1 << (libc::SIGKILL - 1);
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let masks = status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:")));
        masks.map(str::trim).any(|mask| u64::from_str_radix(mask, 16).is_ok_and(|mask| mask & SIGKILL != 0))
    }

    /// Alive, or exiting: the sandbox's pid 1 waits in its exit for all others of the pid namespace.
    pub fn remains(&self) -> bool {
        let pid = rustix::process::Pid::from_raw(self.pid);
        pid.and_then(sys::process::start_of_remaining) == Some(self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive() {
        assert!(Process::own().unwrap().is_alive());
        assert!(!Process { started: 1, ..Process::own().unwrap() }.is_alive());
    }
}
