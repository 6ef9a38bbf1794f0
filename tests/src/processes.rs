//! /proc: which processes exist, and their rights.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

/// Shorefast gives sandboxed processes user ids from here on, with and without a user namespace; no other process has such ids.
const FIRST_SANDBOX_UID: u32 = 2_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    pub pid: u32,
}

impl Process {
    pub fn file(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join(name)
    }

    /// A line of /proc/PID/status. None: the process is gone.
    pub fn status(&self, field: &str) -> Option<String> {
        let status = fs::read_to_string(self.file("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        Some(line.trim().to_owned())
    }

    pub fn is_sandboxed(&self) -> bool {
        let uids = self.status("Uid").unwrap_or_default();
        uids.split_whitespace().any(|uid| uid.parse().is_ok_and(|uid: u32| uid >= FIRST_SANDBOX_UID))
    }

    /// For messages: a description of the process, as far as it can still be read.
    pub fn describe(&self) -> String {
        let words = fs::read(self.file("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let status = |field| self.status(field).unwrap_or_default();
        format!("{} {} [{}] uid {} state {}", self.pid, words.trim(), status("Name"), status("Uid"), status("State"))
    }

    /// Signalling a process that has just ended is no error.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid.cast_signed()) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Every process in the network namespace of the calling thread, except this one. A test has a network of its own, so these are
/// the processes that the test has caused: servers, clients, and leftovers.
pub fn on_this_network() -> Vec<Process> {
    let network = fs::read_link("/proc/thread-self/ns/net").expect("every thread can read its own namespaces");
    all()
        .filter(|process| process.pid != std::process::id())
        .filter(|process| fs::read_link(process.file("ns/net")).is_ok_and(|other| other == network))
        .collect()
}

fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").expect("/proc can be read");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).map(|pid| Process { pid })
}
