//! All mounts as they are now: what records say and what the kernel says, as values. Asks no filesystem anything.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::record::Record;
use crate::records::{Records, Underway, Unreadable};
use crate::state::{Look, Standing};
use crate::{find, reconcile};

/// A complete mount.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listed {
    pub record: Record,
    /// `None`: neither mounted nor served; only the record is left.
    pub standing: Option<Standing>,
}

impl Listed {
    /// Where it is now, or was at last.
    pub fn target(&self) -> &Path {
        self.standing.as_ref().and_then(|standing| standing.place.as_deref()).unwrap_or(&self.record.target)
    }
}

/// A mount that is being made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InProgress {
    pub id: String,
    pub mount: Underway,
    /// The launching process.
    pub pid: i32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Listing {
    pub mounts: Vec<Listed>,
    pub in_progress: Vec<InProgress>,
    /// Files that should be records, and why they cannot be read.
    pub unreadable: Vec<(PathBuf, String)>,
}

pub fn all(records: &Records) -> Result<Listing, Error> {
    let scan = records.scan()?;
    let look = Look::here(records);
    // A mount that ended unobserved is not listed.
    let judge = |record: Record| match look.at(&record) {
        Some(standing) => {
            reconcile::supervise(records, &record);
            Some(Listed { record, standing: Some(standing) })
        }
        None => {
            reconcile::forget_if_over(records, &record);
            None
        }
    };
    let in_progress = records.underway()?.into_iter().map(|(id, mount, maker)| InProgress { id, mount, pid: maker.pid });
    let unreadable = scan.unreadable.into_iter().map(|Unreadable { path, why }| (path, why));
    Ok(Listing {
        mounts: scan.records.into_iter().filter_map(judge).collect(),
        in_progress: in_progress.collect(),
        unreadable: unreadable.collect(),
    })
}

/// One of them: the topmost of ours at `target`, or the one with this id.
pub fn one(records: &Records, target: &Path) -> Result<Listed, Error> {
    let record = find::find(records, target)?;
    reconcile::supervise(records, &record);
    let standing = Look::here(records).at(&record);
    Ok(Listed { record, standing })
}
