//! In: /proc. Out: records that were lost from the run directory. The pid 1 of each sandbox and the keeper hold the mount's log, and a copy
//! of the record is stored behind the log.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Pid;
use shorefast_sandbox::cleaner::members;
use shorefast_sys as sys;
use sys::process_scan::ProcessScan;

use crate::record::{self, Record};
use crate::records::Records;
use crate::state;

/// For a keeper's last step: reads the log that it holds.
pub fn from_own_log(id: &str) -> Option<Record> {
    read(Path::new(&format!("/proc/self/fd/{}", sys::shim::LOG))).filter(|record| record.id == id)
}

/// Live mounts whose record is gone from this run directory: recorded again. `known`: the records that exist.
pub fn lost(records: &Records, known: &[Record]) -> Vec<String> {
    let known = known.iter().filter(|record| record.is_of_this_boot());
    let known: HashSet<_> = known.flat_map(|record| [record.init, record.keeper]).flatten().map(|process| process.pid).collect();
    let pids = ProcessScan::start().map(|pid| pid.as_raw_nonzero().get());
    // Most of the processes of a host with many mounts are known, and need no look.
    pids.filter(|pid| !known.contains(pid)).filter_map(|pid| adopt(records, pid)).collect()
}

/// If the process is the first of a sandbox of this run directory whose record is gone. What others hold is not even looked at: it may be
/// on a filesystem that never answers.
fn adopt(records: &Records, pid: i32) -> Option<String> {
    let ids = members::first_of(Pid::from_raw(pid)?)?;
    let log = PathBuf::from(format!("/proc/{pid}/fd/{}", sys::shim::RING));
    let record = read(&log).filter(|record| record::ids_of(&record.id) == Some(ids))?;
    let named = fs::read_link(&log).ok()?;
    // Skip logs of other run directories. The log's name may be gone, its directory's is not; the device is compared too, because in
    // another mount namespace the same path can be another directory.
    let directory = real_path(records.directory());
    let is_ours = named.parent() == Some(&directory) && device(&log)? == directory.ancestors().find_map(device)?;
    let is_lost =
        is_ours && record.init.is_some_and(|init| init.pid == pid && init.is_alive()) && !matches!(records.get(&record.id), Ok(Some(_)));
    // A mount in progress is not lost.
    if !is_lost || records.maker(&record.id).is_some() || state::of(records, &record).is_none() {
        return None;
    }
    records.restore(&record, &sys::ring::whole(&log).ok()?).ok()?;
    Some(record.id)
}

fn device(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.dev())
}

/// Works for a directory that is gone, too.
fn real_path(directory: &Path) -> PathBuf {
    let parent = directory.parent().and_then(|parent| fs::canonicalize(parent).ok());
    let by_parent = || Some(parent?.join(directory.file_name()?));
    fs::canonicalize(directory).ok().or_else(by_parent).unwrap_or_else(|| directory.to_owned())
}

fn read(log: &Path) -> Option<Record> {
    serde_json::from_slice(&sys::ring::read_note(log).ok()?).ok().filter(Record::is_of_this_boot)
}
