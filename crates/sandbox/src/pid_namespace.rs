//! The processes of a pid namespace: its pid 1 in, pids out. A process that hangs in execve(2) does not show its namespaces
//! ([`sys::bounded_call`]); it belongs to the namespace if it descends from that pid 1.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use shorefast_sys as sys;
use sys::bounded_call::Answer;
use sys::process_scan::ProcessScan;

/// For all processes of the host.
const PATIENCE: Duration = Duration::from_secs(3);
/// No client nests its processes deeper than this.
const MOST_ANCESTORS: usize = 1000;

/// As seen from our own pid namespace.
pub(crate) fn processes_of(first: Pid) -> Vec<Pid> {
    let deadline = Instant::now() + PATIENCE;
    let Some(wanted) = sys::bounded_call::namespaces_of(&[first], "pid", deadline)[0].known() else { return Vec::new() };
    let pids: Vec<_> = ProcessScan::start().collect();
    let namespaces = sys::bounded_call::namespaces_of(&pids, "pid", deadline);
    let is_in = |pid: Pid, namespace: Answer<u64>| match namespace {
        Answer::Known(namespace) => namespace == wanted,
        Answer::None => false,
        Answer::Hangs => descends(pid, first),
    };
    pids.into_iter().zip(namespaces).filter_map(|(pid, namespace)| is_in(pid, namespace).then_some(pid)).collect()
}

fn descends(pid: Pid, from: Pid) -> bool {
    std::iter::successors(Some(pid), |pid| parent(*pid)).take(MOST_ANCESTORS).any(|ancestor| ancestor == from)
}

fn parent(pid: Pid) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    Pid::from_raw(status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_in_its_parents_namespace_and_descends_from_it() {
        let own = rustix::process::getpid();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let (is_in, is_below, is_above) = (processes_of(own).contains(&pid), descends(pid, own), descends(own, pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_in && is_below && !is_above);
    }
}
