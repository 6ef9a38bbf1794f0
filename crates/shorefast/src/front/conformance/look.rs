//! Looks at a mount that may hang, and at processes that may be gone: each with a deadline.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use rustix::thread::CapabilitySet;
use shorefast_sys::bounded_call::{self, Answer};
use shorefast_sys::process_scan::ProcessScan;

/// The result of a check, or why it failed.
pub(super) type Seen = Result<String, String>;

const PATIENCE: Duration = Duration::from_secs(30);
const CONTENT: &[u8] = b"written by `shorefast client test`\n";

/// Where a directory for the mount can be made.
pub(super) fn target() -> PathBuf {
    std::env::temp_dir().join(format!("shorefast-test.{}", std::process::id()))
}

pub(super) fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// By the mount table, which asks no client.
pub(super) fn is_mounted(target: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().filter_map(|line| line.split(' ').nth(4)).any(|point| Path::new(point) == target)
}

/// In a thread that is left behind if the client never answers; an unmount by force lets it go.
fn within<T: Send + 'static>(act: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || drop(sender.send(act())));
    match receiver.recv_timeout(PATIENCE) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

pub(super) fn lists(target: &Path) -> Seen {
    let target = target.to_owned();
    let count = within(move || Ok(fs::read_dir(target)?.count()))?;
    Ok(format!("{count} entries"))
}

pub(super) fn writes(place: &Path) -> Seen {
    let (file, renamed) = (place.join("shorefast-client-test"), place.join("shorefast-client-test.renamed"));
    within(move || {
        fs::write(&file, CONTENT)?;
        let back = fs::read(&file)?;
        if back != CONTENT {
            return Err(io::Error::other(format!("{} bytes were read back, and they differ", back.len())));
        }
        fs::rename(&file, &renamed)?;
        fs::remove_file(&renamed)
    })?;
    Ok("written, read, renamed, removed".to_owned())
}

/// The processes in the same pid namespace as `pid`, itself included.
pub(super) fn companions(pid: i32) -> Vec<i32> {
    // All at once, and in another process: reading about a process that hangs in execve blocks.
    let pids: Vec<_> = ProcessScan::start().collect();
    let namespaces = bounded_call::namespaces_of(&pids, "pid", Instant::now() + PATIENCE);
    let namespace =
        |wanted: Pid| pids.iter().zip(&namespaces).find_map(|(pid, namespace)| (*pid == wanted).then_some(namespace.known())?);
    let own = Pid::from_raw(pid).and_then(namespace);
    if own.is_none() || own == namespace(rustix::process::getpid()) {
        return vec![pid];
    }
    let is_beside = |(pid, namespace): (&Pid, &Answer<u64>)| (namespace.known() == own).then(|| pid.as_raw_nonzero().get());
    pids.iter().zip(&namespaces).filter_map(is_beside).collect()
}

fn status(pid: i32, key: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned()))
}

/// `allowed`: what the definition gives the client in a user namespace of its own.
pub(super) fn privileges(processes: &[i32], allowed: CapabilitySet) -> Seen {
    for pid in processes {
        for (key, expected) in [("NoNewPrivs", "1"), ("Seccomp", "2")] {
            match status(*pid, key) {
                Some(value) if value != expected => return Err(format!("process {pid}: {key} is {value}, not {expected}")),
                _ => {}
            }
        }
        for key in ["CapEff", "CapPrm", "CapBnd"] {
            match status(*pid, key).and_then(|value| u64::from_str_radix(&value, 16).ok()) {
                Some(set) if set & !allowed.bits() != 0 => return Err(format!("process {pid}: {key} is {set:016x}")),
                _ => {}
            }
        }
        if status(*pid, "Uid").is_some_and(|ids| ids.split_whitespace().any(|id| id == "0")) {
            return Err(format!("process {pid} is root on the host"));
        }
    }
    let capability = if allowed.is_empty() { "no capability" } else { "no capability but those over its source" };
    Ok(format!("{} processes: {capability}, no way to one, a filter of system calls, not root", processes.len()))
}

pub(super) fn memory(processes: &[i32]) -> Seen {
    let kilobytes = |pid: &i32| status(*pid, "VmRSS").and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    Ok(format!("{} kB in {} processes", processes.iter().filter_map(kilobytes).sum::<u64>(), processes.len()))
}

pub(super) fn kill(pid: i32) -> Result<(), String> {
    let process = Pid::from_raw(pid).ok_or("no process")?;
    rustix::process::kill_process(process, Signal::KILL).map_err(|error| error.to_string())
}

pub(super) fn ended(processes: &[i32], time: Duration) -> bool {
    let began = Instant::now();
    // A zombie counts as gone.
    let is_there = |pid: &i32| status(*pid, "State").is_some_and(|state| !state.starts_with(['Z', 'X']));
    while processes.iter().any(is_there) {
        if began.elapsed() > time {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}
