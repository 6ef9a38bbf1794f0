//! The processes of one sandbox, found by its ids: also those that share the host's processes, and outlive the first one.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::spec::Ids;

/// More than this would not help: on a busy host somebody always ends.
const LOOKS: usize = 5;

pub fn of(ids: Ids) -> Vec<Pid> {
    (0..LOOKS).find_map(|_| look(ids)).unwrap_or_default()
}

/// `None`: there seems to be nobody, but a process of the list was gone when its turn came. It may have been one of them, and
/// left a child that was not there yet when the list was made.
fn look(ids: Ids) -> Option<Vec<Pid>> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    conclude(pids.map(|pid| (pid, fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok())), ids)
}

fn conclude(listed: impl Iterator<Item = (Pid, Option<String>)>, ids: Ids) -> Option<Vec<Pid>> {
    let mut is_one_gone = false;
    let mut members = Vec::new();
    for (pid, status) in listed {
        match status {
            None => is_one_gone = true,
            Some(status) if belongs(&status, ids) => members.push(pid),
            Some(_) => {}
        }
    }
    (!members.is_empty() || !is_one_gone).then_some(members)
}

/// By its user, or, where the client is the host's root, by a group that nothing else has.
fn belongs(status: &str, ids: Ids) -> bool {
    let numbers = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_ascii_whitespace().filter_map(|number| number.parse::<u32>().ok()).collect::<Vec<_>>()
    };
    numbers("Uid:").first().is_some_and(|uid| ids.contain(*uid)) || numbers("Groups:").contains(&ids.mark())
}

/// Kills them all.
pub fn end_all(ids: Ids) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        let members = of(ids);
        if members.is_empty() {
            return;
        }
        for pid in members {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_at_a_process_that_has_gone_shows_nothing() {
        let ids = Ids::of_slot(7);
        let pid = |number| Pid::from_raw(number).unwrap();
        let status = |uid: u32| Some(format!("Uid:\t{uid}\t0\t0\t0\n"));
        let (member, other) = (status(ids.dedicated()), status(0));
        let rows = [
            (vec![other.clone()], Some(vec![])),
            (vec![other.clone(), member.clone()], Some(vec![pid(2)])),
            (vec![other, None], None),
            (vec![None, member], Some(vec![pid(2)])),
        ];
        for (statuses, expected) in rows {
            let listed = (1..).map(pid).zip(statuses.clone());
            assert_eq!(conclude(listed, ids), expected, "{statuses:?}");
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
