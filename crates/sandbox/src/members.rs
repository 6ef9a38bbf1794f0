//! The processes of one sandbox, found by its ids: also those that share the host's processes, and outlive the first one.

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use shorefast_sys as sys;

use crate::spec::Ids;

/// What a kill takes, and the kernel's work after it.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// Kills every process of a sandbox: by its ids, which nothing else in this run directory has, and only those that started at
/// `since`, in clock ticks since boot, or later. A sandbox of another run directory could have the same ids by chance.
pub fn end_all(ids: Ids, since: u64) {
    let deadline = Instant::now() + PATIENCE;
    let mut hunt = Hunt::default();
    while Instant::now() < deadline {
        let found = hunt.judge(sightings(ids, since));
        if found == Found::Nobody {
            return;
        }
        if let Found::Members(members) = found {
            for pid in members {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// One process of the list, when its turn came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sighting {
    Member,
    Stranger,
    /// Ended, or about to: perhaps a member, which left a child that was not there yet when the list was made.
    Gone,
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Members(Vec<Pid>),
    /// None that is seen, but there may be one.
    Unclear,
    Nobody,
}

/// Several looks at a list that changes while it is read.
#[derive(Debug, Default)]
struct Hunt {
    /// Whose children are on the list by now, or are none of ours.
    settled: HashSet<Pid>,
}

impl Hunt {
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

fn sightings(ids: Ids, since: u64) -> impl Iterator<Item = (Pid, Sighting)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    pids.map(move |pid| (pid, look(pid, ids, since)))
}

fn look(pid: Pid, ids: Ids, since: u64) -> Sighting {
    match fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())) {
        Err(_) => Sighting::Gone,
        Ok(status) if !belongs(&status, ids) => Sighting::Stranger,
        Ok(_) => match sys::process::start_of(pid) {
            None => Sighting::Gone,
            Some(started) if started < since => Sighting::Stranger,
            Some(_) => Sighting::Member,
        },
    }
}

/// By its user, or, where the client is the host's root, by a group that nothing else has.
fn belongs(status: &str, ids: Ids) -> bool {
    let numbers = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_ascii_whitespace().filter_map(|number| number.parse::<u32>().ok()).collect::<Vec<_>>()
    };
    numbers("Uid:").first().is_some_and(|uid| ids.contain(*uid)) || numbers("Groups:").contains(&ids.mark())
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
            // It was seen to be another's before it went.
            (&[&[(1, Stranger)], &[(1, Gone)]], Found::Nobody),
            // A member that nobody reaps: what it started came before it ended, so it is on the second list.
            (&[&[(2, Gone)], &[(2, Gone)]], Found::Nobody),
            (&[&[(2, Gone)], &[(2, Gone), (3, Gone)]], Found::Unclear),
        ];
        for (looks, expected) in rows {
            let mut hunt = Hunt::default();
            let found = looks.iter().map(|look| hunt.judge(look.iter().map(|(number, sighting)| (pid(*number), *sighting))));
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
}
