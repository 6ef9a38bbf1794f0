//! What has become of a mount. Reads the kernel's tables only: never asks a filesystem anything,
//! so a dead server cannot hold it up.

use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::Pid;
use serde::Serialize;
use shorefast_sys as sys;

use crate::record::{Process, Record};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Serving,
    /// Mounted, but nobody serves it.
    Dead,
    /// Served, but no longer at its target: unmounted lazily while in use.
    Detached,
}

/// `None`: neither mounted nor served; only the record is left.
pub fn of(record: &Record) -> Option<State> {
    let is_mounted = is_mounted(record);
    let is_served = record.init.map_or(is_mounted, |init| init.is_alive());
    match (is_mounted, is_served) {
        (true, true) => Some(State::Serving),
        (true, false) => Some(State::Dead),
        (false, true) => Some(State::Detached),
        (false, false) => None,
    }
}

fn is_mounted(record: &Record) -> bool {
    // An error is no proof that it is gone; the end of its whole namespace is.
    let look = || sys::mount::place_of(&record.mount.into()).map_or(true, |place| place.is_some());
    in_its_namespace(record, look).unwrap_or(false)
}

/// Does `look` in the mount namespace where the mount was made: a service may have one of its
/// own. `None`: that namespace is gone.
pub fn in_its_namespace<T>(record: &Record, look: impl FnOnce() -> T) -> Option<T> {
    let own = std::fs::metadata("/proc/thread-self/ns/mnt").ok()?.ino();
    if own == record.namespace {
        return Some(look());
    }
    // The keeper is where its maker was, which is nearly always where the mount is.
    let keeper = record.keeper.filter(Process::is_alive).map(|keeper| keeper.pid).filter(|pid| is_in(*pid, record.namespace));
    let somebody = keeper.or_else(|| somebody_in(record.namespace))?;
    let namespace = sys::namespace::of(Pid::from_raw(somebody)?, "mnt").ok()?;
    let home = sys::namespace::Home::here().ok()?;
    let _visit = home.visit(namespace.as_fd()).ok()?;
    Some(look())
}

fn somebody_in(namespace: u64) -> Option<i32> {
    let pids = std::fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.into_iter().find(|pid| is_in(*pid, namespace))
}

fn is_in(pid: i32, namespace: u64) -> bool {
    std::fs::metadata(format!("/proc/{pid}/ns/mnt")).is_ok_and(|metadata| metadata.ino() == namespace)
}
