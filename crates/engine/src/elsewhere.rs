//! Whether a mount of ours is used at other places than its own: bound into containers, or by anybody else. Reads the mount tables of all
//! processes, and asks no filesystem anything.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use shorefast_sys as sys;
use sys::mountinfo::{self, Entry};
use sys::process_scan::{self, ProcessScan};

use crate::error::Error;
use crate::find;
use crate::record::Record;
use crate::records::Records;

/// A copy of the whole table, as services with a private one have it, has the mount at its own place, and is no use of it.
pub fn is_used(records: &Records, target: &Path) -> Result<bool, Error> {
    let record = match find::find(records, target) {
        Err(Error::NotOurs { .. }) => return Ok(false),
        record => record?,
    };
    let mut seen: HashSet<_> = record.sandbox.into_iter().collect();
    let is_new = |process: &std::path::PathBuf| fs::metadata(process.join("ns/mnt")).is_ok_and(|namespace| seen.insert(namespace.ino()));
    let mut tables = ProcessScan::start().map(process_scan::directory).filter(is_new).map(|process| fs::read(process.join("mountinfo")));
    Ok(tables.any(|table| mountinfo::parse(&table.unwrap_or_default()).iter().any(|entry| is_copy(&record, entry))))
}

fn is_copy(record: &Record, entry: &Entry) -> bool {
    (entry.major, entry.minor) == (record.mount.major, record.mount.minor) && entry.mount_point != record.target
}
