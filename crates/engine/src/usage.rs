//! How full a mounted filesystem is. Asks its server: only for processes that can be killed.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use shorefast_sys as sys;
use sys::bounded_call;

use crate::error::Error;
use crate::find;
use crate::publish;
use crate::records::Records;

/// In bytes and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub bytes: Room,
    pub files: Room,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    pub total: u64,
    pub used: u64,
    /// For users other than root.
    pub available: u64,
}

const RESOLVE: Duration = Duration::from_secs(2);

/// Of the mount with this label at `path`: the original or a copy.
pub fn of(records: &Records, path: &Path, label: &str) -> Result<Usage, Error> {
    let failed = |source| Error::Target { path: path.to_owned(), source };
    let is_copy = publish::entry_at(records, path).is_some_and(|entry| entry.label == label);
    if !is_copy && find::find(records, path)?.label.as_deref() != Some(label) {
        return Err(Error::NotOurs { path: path.to_owned() });
    }
    let opened = bounded_call::open(path, OFlags::PATH | OFlags::DIRECTORY, Instant::now() + RESOLVE);
    let opened = opened.or_timed_out(|| format!("open({path:?})")).map_err(failed)?;
    if !publish::is_root_of_mount(&opened) {
        return Err(Error::NotOurs { path: path.to_owned() });
    }
    let status = rustix::fs::fstatvfs(&opened);
    let status = sys::call(|| format!("fstatvfs({path:?})"), status).map_err(failed)?;
    let bytes = |blocks: u64| blocks.saturating_mul(status.f_frsize);
    Ok(Usage {
        bytes: Room {
            total: bytes(status.f_blocks),
            used: bytes(status.f_blocks.saturating_sub(status.f_bfree)),
            available: bytes(status.f_bavail),
        },
        files: Room { total: status.f_files, used: status.f_files.saturating_sub(status.f_ffree), available: status.f_favail },
    })
}
