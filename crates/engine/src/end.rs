//! Ending what runs under a sandbox's ids.

use std::time::{Duration, Instant};

use shorefast_sandbox::members;
use shorefast_sandbox::spec::Ids;

use crate::record::Process;

/// Kills every process of a sandbox: by its ids, which nothing else in this run directory has, and
/// only those that started with it or later. A sandbox of another run directory could have the
/// same ids by chance.
pub fn sandbox(ids: Ids, since: u64) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        let processes = processes_of(ids).into_iter().filter(|process| process.started >= since);
        let pids: Vec<_> = processes.filter_map(|process| rustix::process::Pid::from_raw(process.pid)).collect();
        if pids.is_empty() {
            return;
        }
        for pid in pids {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn processes_of(ids: Ids) -> Vec<Process> {
    members::of(ids).into_iter().filter_map(|pid| Process::of(pid.as_raw_nonzero().get())).collect()
}
