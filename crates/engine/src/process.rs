//! A process of the host, identified by pid and start time.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags};
use serde::{Deserialize, Serialize};
use shorefast_sys as sys;
use sys::bounded_call::Answer;

/// A process that cannot be confused with a later one of the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    /// In clock ticks since boot.
    pub started: u64,
    /// The kernel's own number for it (6.9), which is asked for without waiting for anybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<u64>,
}

/// A start time comes at once, but from a process that hangs.
const PATIENCE: Duration = Duration::from_secs(3);

impl Process {
    /// `pid`: a child of ours, or a process that is known to be one of ours in another way.
    pub fn of_ours(pid: i32) -> Option<Self> {
        let pid = Pid::from_raw(pid)?;
        let held = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let started = sys::process::start_of(pid)?;
        Some(Self { pid: pid.as_raw_nonzero().get(), started, unique: sys::process::unique_id(held.as_fd()) })
    }

    pub fn own() -> Option<Self> {
        Self::of_ours(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// Kills it, and no process that has reused its pid. True: it has ended by the deadline.
    pub fn end(&self, deadline: Instant) -> bool {
        let Some(held) = self.hold() else { return true };
        if !self.is_alive() {
            return true;
        }
        let _ = rustix::process::pidfd_send_signal(&held, rustix::process::Signal::KILL);
        sys::deadline::is_readable(held.as_fd(), deadline).unwrap_or(false)
    }

    pub fn is_alive(&self) -> bool {
        self.remains() && Pid::from_raw(self.pid).is_some_and(sys::process::has_memory)
    }

    /// Alive, but SIGKILL is pending: it runs no more code in user space.
    pub fn is_being_killed(&self) -> bool {
        Self::has_sigkill(&std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default())
    }

    /// The same by /proc/PID/status.
    pub fn has_sigkill(status: &str) -> bool {
        const SIGKILL: u64 = 1 << (libc::SIGKILL - 1);
        let masks = status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:")));
        masks.map(str::trim).any(|mask| u64::from_str_radix(mask, 16).is_ok_and(|mask| mask & SIGKILL != 0))
    }

    /// Alive, or exiting: the sandbox's pid 1 waits in its exit for all others of the pid namespace.
    pub fn remains(&self) -> bool {
        self.hold().is_some_and(|held| !sys::deadline::is_readable(held.as_fd(), Instant::now()).unwrap_or(true))
    }

    /// `None`: it is gone.
    fn hold(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(self.pid)?;
        let held = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let is_it = match (self.unique, sys::process::unique_id(held.as_fd())) {
            (Some(unique), Some(now)) => unique == now,
            // No process of ours hangs in execve: one that does is another one with its pid.
            _ => {
                let starts = sys::bounded_call::starts_of(&[pid], Instant::now() + PATIENCE);
                matches!(starts[..], [Answer::Known(start)] if start.at == self.started)
            }
        };
        is_it.then_some(held)
    }
}

/// SIGKILL is pending, or it is exiting: it runs no more code in user space.
pub fn is_being_killed(pid: i32) -> bool {
    const SIGKILL: u64 = 1 << (libc::SIGKILL - 1);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let masks = status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:")));
    masks.map(str::trim).any(|mask| u64::from_str_radix(mask, 16).is_ok_and(|mask| mask & SIGKILL != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive() {
        assert!(Process::own().unwrap().is_alive());
        assert!(!Process { started: 1, unique: None, ..Process::own().unwrap() }.is_alive());
        assert!(Process { unique: None, ..Process::own().unwrap() }.is_alive(), "as a record of an older build has it");
        assert!(!Process { unique: Some(1), ..Process::own().unwrap() }.is_alive());
    }
}
