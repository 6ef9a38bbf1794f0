//! Finds and kills the processes of one sandbox: its [`Ids`] come in, whether any process is left goes out. Also finds
//! those that share the host's pid namespace and outlive the first process. Runs in the launching process, and in the
//! process that cleans up after a mount.

use std::collections::HashSet;
use std::fs;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};
use shorefast_sys as sys;
use sys::bounded_call::Answer;
use sys::process::Start;
use sys::process_scan::ProcessScan;

use crate::cleaner::stuck;
use crate::pid_namespace;
use crate::spec::Ids;

/// Time for SIGKILL to take effect, and for the kernel's work after it.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);
/// For reading attributes that a process can hide by hanging in execve.
const FOR_LOOK: Duration = Duration::from_secs(1);

/// What identifies the processes of a sandbox.
#[derive(Clone, Copy, Debug)]
pub struct Sandbox {
    pub ids: Ids,
    /// When the sandbox was created, in clock ticks since boot: none of its processes is older.
    pub since: u64,
    /// The inode of its mount namespace: no process of the sandbox can leave it, and no other can enter it.
    pub mounts: Option<u64>,
}

/// Whether any process has these ids, regardless of the run directory or version that started it.
pub fn is_anybody(ids: Ids) -> bool {
    use crate::spec::Identity::{DedicatedUser, UserNamespace};
    let users = [UserNamespace, DedicatedUser].into_iter().flat_map(|identity| [ids.init(identity), ids.client(identity)]);
    // Cheap: the kernel walks its processes only if it has an entry for the user at all.
    users.into_iter().any(|user| rustix::process::getpriority_user(rustix::process::Uid::from_raw(user)).is_ok())
}

/// The same, without zombies, and without the members of sandboxes with these mount namespaces.
pub fn is_anybody_alive(ids: Ids, but: &[u64]) -> bool {
    if !is_anybody(ids) {
        return false;
    }
    let is_one = |pid: &Pid| {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
        belongs(&status, ids) && !status.lines().any(|line| line.starts_with("State:\tZ"))
    };
    let found: Vec<_> = ProcessScan::start().filter(is_one).collect();
    // A process whose namespace cannot be read may be in any.
    let is_other = |mounts: Answer<u64>| mounts.known().is_none_or(|mounts| !but.contains(&mounts));
    sys::bounded_call::namespaces_of(&found, "mnt", Instant::now() + FOR_LOOK).into_iter().any(is_other)
}

/// The sandbox whose first process this is. Its uid proves it: no other process can have it, so its descriptors are Shorefast's. The process name
/// (comm) proves nothing, because any process can choose its own; it only saves reading the status of most processes.
pub fn first_of(pid: Pid) -> Option<Ids> {
    let file = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", pid.as_raw_nonzero())).ok();
    if file("comm")? != "shorefast-init\n" {
        return None;
    }
    by_user(&file("status")?)
}

fn by_user(status: &str) -> Option<Ids> {
    let users = numbers(status, "Uid:");
    let ids = Ids::of_first(*users.first()?)?;
    users.iter().all(|user| *user == users[0]).then_some(ids)
}

/// The processes of a sandbox.
pub fn of(ids: Ids) -> Vec<Pid> {
    let status = |pid: &Pid| fs::read_to_string(sys::process_scan::directory(*pid).join("status"));
    ProcessScan::start().filter(|pid| status(pid).is_ok_and(|status| belongs(&status, ids))).collect()
}

/// How many bytes they have read and written so far: a client that neither answers nor gets an answer moves none. Neither does a process that
/// hangs in execve.
pub fn moved(processes: &[Pid]) -> u64 {
    let counts = sys::bounded_call::moved_by(processes, Instant::now() + FOR_LOOK);
    counts.into_iter().filter_map(Answer::known).fold(0, u64::wrapping_add)
}

/// Kills every process of a sandbox. Returns whether none is left.
pub fn end_all(sandbox: &Sandbox) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let mut scan = RepeatedScan::default();
    let mut killed = Vec::new();
    while Instant::now() < deadline {
        let found = scan.judge(sightings(sandbox));
        if found == Found::Nobody {
            return true;
        }
        if let Found::Members(members) = found {
            for pid in &members {
                kill(*pid, sandbox);
            }
            stuck::free(&members.iter().copied().filter(|pid| killed.contains(pid)).collect::<Vec<_>>());
            killed = members;
        }
        std::thread::sleep(PAUSE);
    }
    false
}

/// Waits for the end of a pid namespace whose pid 1 was killed. Pid 1 waits for all others in the namespace, some of
/// which may have to be unblocked. Returns whether it has ended.
pub fn end_namespace(first: Pid) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let Ok(held) = rustix::process::pidfd_open(first, PidfdFlags::empty()) else { return true };
    while !sys::deadline::is_readable(held.as_fd(), Instant::now() + PAUSE).unwrap_or(true) {
        if Instant::now() >= deadline {
            return false;
        }
        stuck::free(&pid_namespace::processes_of(first));
    }
    true
}

/// Opens a pidfd first and checks membership afterwards, so that a reused pid is never killed.
fn kill(pid: Pid, sandbox: &Sandbox) {
    let Ok(held) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return };
    if look(pid, sandbox) == Sighting::Member {
        let _ = rustix::process::pidfd_send_signal(&held, Signal::KILL);
    }
}

/// The state of one listed process when it was examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sighting {
    Member,
    Stranger,
    /// Exited, or exiting: perhaps a member that left a child which did not exist yet when the list was read.
    Gone,
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Members(Vec<Pid>),
    /// No member was seen, but one may exist.
    Unclear,
    Nobody,
}

/// Repeated scans of a process list that changes while it is read.
#[derive(Debug, Default)]
struct RepeatedScan {
    /// Processes whose children are listed by now, or that are not members.
    settled: HashSet<Pid>,
}

impl RepeatedScan {
    fn judge(&mut self, listed: impl Iterator<Item = (Pid, Sighting)>) -> Found {
        let mut members = Vec::new();
        let mut is_clear = true;
        for (pid, sighting) in listed {
            match sighting {
                Sighting::Member => members.push(pid),
                Sighting::Stranger => {
                    self.settled.insert(pid);
                }
                Sighting::Gone => is_clear &= !self.settled.insert(pid),
            }
        }
        match (members.is_empty(), is_clear) {
            (false, _) => Found::Members(members),
            (true, false) => Found::Unclear,
            (true, true) => Found::Nobody,
        }
    }
}

fn sightings(sandbox: &Sandbox) -> impl Iterator<Item = (Pid, Sighting)> {
    ProcessScan::start().map(move |pid| (pid, look(pid, sandbox)))
}

fn look(pid: Pid, sandbox: &Sandbox) -> Sighting {
    match fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())) {
        Err(_) => Sighting::Gone,
        Ok(status) if !belongs(&status, sandbox.ids) => Sighting::Stranger,
        Ok(status) => {
            let deadline = Instant::now() + FOR_LOOK;
            let started = sys::bounded_call::starts_of(&[pid], deadline)[0];
            match (started, sys::bounded_call::namespaces_of(&[pid], "mnt", deadline)[0]) {
                // A client that hangs in execve shows neither its age nor its namespace. But it has an id that only Shorefast's sandboxes have.
                (Answer::Hangs, _) | (_, Answer::Hangs) => Sighting::Member,
                // Its main thread has exited, but another thread is blocked.
                (started, _) if !serves(started) && numbers(&status, "Threads:").iter().any(|threads| *threads > 1) => Sighting::Member,
                (started, mounts) if !serves(started) || mounts == Answer::None => Sighting::Gone,
                (Answer::Known(start), _) if start.at < sandbox.since => Sighting::Stranger,
                (_, mounts) if sandbox.mounts.is_some() && mounts.known() != sandbox.mounts => Sighting::Stranger,
                _ => Sighting::Member,
            }
        }
    }
}

fn serves(started: Answer<Start>) -> bool {
    started.known().is_some_and(|start| !start.is_exiting)
}

/// By its uid or, where the client is the host's root, by a group that no other process has.
pub fn belongs(status: &str, ids: Ids) -> bool {
    numbers(status, "Uid:").first().is_some_and(|uid| ids.contain(*uid)) || numbers(status, "Groups:").contains(&ids.mark())
}

/// The numbers of one line of /proc/PID/status.
fn numbers(status: &str, name: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_left_only_if_all_that_went_are_known() {
        use Sighting::{Gone, Member, Stranger};
        let pid = |number| Pid::from_raw(number).unwrap();
        type Look = &'static [(i32, Sighting)];
        let rows: [(&[Look], Found); 7] = [
            (&[&[(1, Stranger)]], Found::Nobody),
            (&[&[(1, Stranger), (2, Member)]], Found::Members(vec![pid(2)])),
            (&[&[(1, Stranger), (2, Gone)]], Found::Unclear),
            (&[&[(1, Gone), (2, Member)]], Found::Members(vec![pid(2)])),
            // Seen as a non-member before it exited.
            (&[&[(1, Stranger)], &[(1, Gone)]], Found::Nobody),
            // A member that is never reaped: it started its children before it exited, so they are on the second list.
            (&[&[(2, Gone)], &[(2, Gone)]], Found::Nobody),
            (&[&[(2, Gone)], &[(2, Gone), (3, Gone)]], Found::Unclear),
        ];
        for (looks, expected) in rows {
            let mut scan = RepeatedScan::default();
            let found = looks.iter().map(|look| scan.judge(look.iter().map(|(number, sighting)| (pid(*number), *sighting))));
            assert_eq!(found.last(), Some(expected), "{looks:?}");
        }
    }

    #[test]
    fn a_member_has_the_user_or_the_mark() {
        let ids = Ids::of_slot(7);
        let status = |uid: u32, groups: &str| format!("Name:\tx\nUid:\t{uid}\t0\t0\t0\nGroups:\t{groups} \n");
        let mark = ids.mark().to_string();
        let rows = [
            (status(0, ""), false),
            (status(0, &format!("4 {mark}")), true),
            (status(0, &format!("{mark}1")), false),
            (status(ids.dedicated(), ""), true),
            (status(ids.base() + 3, "0"), true),
            (status(0, &Ids::of_slot(8).mark().to_string()), false),
            (String::new(), false),
        ];
        for (status, expected) in rows {
            assert_eq!(belongs(&status, ids), expected, "{status}");
        }
    }

    #[test]
    fn the_first_process_is_known_by_its_user() {
        use crate::spec::Identity::{DedicatedUser, UserNamespace};
        let status = |user: u32| format!("Name:\tshorefast-init\nUid:\t{user}\t{user}\t{user}\t{user}\n");
        for ids in [0, 7, Ids::SLOTS - 1].map(Ids::of_slot) {
            for identity in [UserNamespace, DedicatedUser] {
                assert_eq!(by_user(&status(ids.init(identity))), Some(ids));
                assert_eq!(by_user(&status(ids.client(identity))), None, "a client");
            }
        }
        let half = format!("Uid:\t{}\t0\t0\t0\n", Ids::of_slot(7).init(DedicatedUser));
        for status in [status(0), status(1000), status(2_099_999_999), status(u32::MAX - 2), half, String::new()] {
            assert_eq!(by_user(&status), None, "{status}");
        }
    }
}
