//! Whether a mount of ours is used at other places than its own: bound into containers, or by anybody else. Reads the mount tables of all
//! processes, and asks no filesystem anything.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use shorefast_sys as sys;
use sys::bounded_call::Answer;
use sys::mountinfo::{self, Entry};
use sys::process_scan::{self, ProcessScan};

use crate::error::Error;
use crate::find;
use crate::record::Record;
use crate::records::Records;

/// For all processes of the host.
const PATIENCE: Duration = Duration::from_secs(5);

/// A copy of the whole table, as services with a private one have it, has the mount at its own place, and is no use of it.
pub fn is_used(records: &Records, target: &Path) -> Result<bool, Error> {
    let record = match find::find(records, target) {
        Err(Error::NotOurs { .. }) => return Ok(false),
        record => record?,
    };
    let mut seen: HashSet<_> = record.sandbox.into_iter().collect();
    let pids: Vec<_> = ProcessScan::start().collect();
    let namespaces = sys::bounded_call::namespaces_of(&pids, "mnt", Instant::now() + PATIENCE);
    // The table of a process that hangs can be read, though not whose it is.
    let mut is_new =
        |namespace: Answer<u64>| namespace == Answer::Hangs || namespace.known().is_some_and(|namespace| seen.insert(namespace));
    let new = pids.into_iter().zip(namespaces).filter_map(|(pid, namespace)| is_new(namespace).then_some(pid));
    let mut tables = new.map(|pid| fs::read(process_scan::directory(pid).join("mountinfo")));
    Ok(tables.any(|table| mountinfo::parse(&table.unwrap_or_default()).iter().any(|entry| is_copy(&record, entry))))
}

fn is_copy(record: &Record, entry: &Entry) -> bool {
    (entry.major, entry.minor) == (record.mount.major, record.mount.minor) && entry.mount_point != record.target
}
