//! Ends waits that nobody wants any more. In: how long to watch. Out: the mounts whose clients were ended.
//!
//! Who waits for a FUSE server that has taken the request cannot be killed: a container on a dead server does not end, nobody unmounts its volume,
//! and so its client does not end either. That client is ended here, and its connection aborted, if for all of that time
//! - its mount is a volume (it has a label), and requests wait;
//! - none of its processes has read or written a byte, so neither it nor its server is merely slow;
//! - nobody has the mount but the host itself, and processes that have been killed. One container that lives keeps all waiting, as without us.
//!
//! To the mount this is a crash of its client: it stays, and heals when the server is back ([`crate::heal`]).

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use shorefast_sandbox::cleaner::members;
use shorefast_sandbox::spec::Ids;
use shorefast_sys as sys;
use sys::fuse_control::Connections;
use sys::mountinfo::{self, Entry};
use sys::process_scan::{self, ProcessScan};

use crate::error::Error;
use crate::process::Process;
use crate::reconcile;
use crate::record::{self, Record};
use crate::records::Records;
use crate::state;

/// Between two looks at what silent clients have moved.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two looks at who has their mounts, which reads the table of every process.
const TO_SCAN: Duration = Duration::from_secs(2);
/// Who asks for this asks again.
pub const LONGEST: Duration = Duration::from_secs(120);
const LOCK: Duration = Duration::from_secs(2);

/// Watches as long as clients are silent: whoever has been for `patience` is ended as soon as nobody wants it any more.
pub fn unwanted(records: &Records, patience: Duration) -> Result<Vec<PathBuf>, Error> {
    // Nothing here uses FUSE.
    let Ok(connections) = Connections::open() else { return Ok(Vec::new()) };
    let until = Instant::now() + LONGEST;
    let (mut silent, mut ended) = (newly_silent(records, &connections, &[])?, Vec::new());
    let mut scanned = Instant::now();
    while !silent.is_empty() && Instant::now() < until {
        std::thread::sleep(PAUSE);
        silent.retain(|one| one.is_still(&connections));
        let new = newly_silent(records, &connections, &silent)?;
        silent.extend(new);
        let is_due = |one: &Silent| one.since.elapsed() >= patience;
        if silent.iter().any(is_due) && scanned.elapsed() >= TO_SCAN {
            let own = mountinfo::read().unwrap_or_default();
            let unwanted = silent.extract_if(.., |one| is_due(one) && !is_wanted(&one.record, one.ids, &own));
            ended.extend(unwanted.filter(|one| end(records, &one.record)).map(|one| one.record.target));
            scanned = Instant::now();
        }
    }
    Ok(ended)
}

/// Those that are not known yet. Most of the time nobody new waits, and no record is read.
fn newly_silent(records: &Records, connections: &Connections, known: &[Silent]) -> Result<Vec<Silent>, Error> {
    let is_known = |minor: u32| known.iter().any(|one| one.record.mount.minor == minor);
    let waiting = connections.waiting().unwrap_or_default();
    if waiting.into_iter().all(is_known) {
        return Ok(Vec::new());
    }
    let new = records.all()?.into_iter().filter(|record| !is_known(record.mount.minor));
    Ok(new.filter_map(|record| Silent::of(record, connections)).collect())
}

struct Silent {
    record: Record,
    ids: Ids,
    processes: Vec<Pid>,
    moved: u64,
    since: Instant,
}

impl Silent {
    fn of(record: Record, connections: &Connections) -> Option<Self> {
        let ids = record::ids_of(&record.id).filter(|_| record.label.is_some() && record.init.is_some())?;
        connections.waits(record.mount.minor).then(|| {
            let processes = members::of(ids);
            Self { moved: members::moved(&processes), processes, record, ids, since: Instant::now() }
        })
    }

    fn is_still(&self, connections: &Connections) -> bool {
        connections.waits(self.record.mount.minor) && members::moved(&self.processes) == self.moved
    }
}

/// `own`: this namespace's mount table, in which every place is the host's. Processes are recognised by files of theirs that can always be read.
fn is_wanted(record: &Record, ids: Ids, own: &[Entry]) -> bool {
    let device = (record.mount.major, record.mount.minor);
    let (known, places) = known(device, own);
    ProcessScan::start().map(process_scan::directory).any(|process| {
        let table = fs::read(process.join("mountinfo")).unwrap_or_default();
        if !mountinfo::parse(&table).iter().any(|entry| is_use(device, entry, &known, &places)) {
            return false;
        }
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        !members::belongs(&status, ids) && !Process::has_sigkill(&status)
    })
}

/// Ids and places of the mount and of all its copies on the host.
fn known(device: Device, own: &[Entry]) -> (HashSet<u64>, Vec<&Path>) {
    let of_it = || own.iter().filter(|entry| (entry.major, entry.minor) == device);
    (of_it().map(|entry| entry.id).collect(), of_it().map(|entry| entry.mount_point.as_path()).collect())
}

/// Major and minor number.
type Device = (u32, u32);

/// Services with a mount table of their own, and pods that see the host's, have the same places, perhaps below another directory.
fn is_use(device: Device, entry: &Entry, known: &HashSet<u64>, places: &[&Path]) -> bool {
    let is_hosts = |place: &&Path| entry.mount_point.ends_with(place.strip_prefix("/").unwrap_or(place));
    (entry.major, entry.minor) == device && !known.contains(&entry.id) && !places.iter().any(is_hosts)
}

/// The client first: with its connection aborted it might end in order, and take the mount along.
fn end(records: &Records, record: &Record) -> bool {
    let lock = records.lock(&record.id, Instant::now() + LOCK);
    let is_there = lock.is_some() && records.get(&record.id).is_ok_and(|now| now.is_some()) && !state::is_dead(records, record);
    if !is_there {
        return false;
    }
    reconcile::end_client(record);
    let is_ours = state::ownership(records, record);
    state::in_its_namespace(record, || sys::unmount::abort_fuse(&record.mount.into(), &is_ours).unwrap_or(false)).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_a_place_that_is_not_the_hosts() {
        let table = |text: &str| mountinfo::parse(text.as_bytes());
        let own = table("10 1 0:77 / /var/lib/kubelet/pods/1/mount rw - fuse.sshfs x rw\n11 1 0:78 / /data rw - fuse.sshfs x rw\n");
        let known = HashSet::from([10]);
        let places = [own[0].mount_point.as_path()];
        let rows = [
            ("a container's", "90 1 0:77 / /data rw - fuse.sshfs x rw", true),
            ("a directory of it in a container", "90 1 0:77 /sub /data rw - fuse.sshfs x rw", true),
            ("the host's own", "10 1 0:77 / /elsewhere rw - fuse.sshfs x rw", false),
            ("a service's with a table of its own", "90 1 0:77 / /var/lib/kubelet/pods/1/mount rw - fuse.sshfs x rw", false),
            ("a pod's that sees the host", "90 1 0:77 / /host/var/lib/kubelet/pods/1/mount rw - fuse.sshfs x rw", false),
            ("another mount's", "90 1 0:78 / /data rw - fuse.sshfs x rw", false),
        ];
        for (what, line, expected) in rows {
            let entry = &table(&format!("{line}\n"))[0];
            assert_eq!(is_use((0, 77), entry, &known, &places), expected, "{what}");
        }
    }
}
