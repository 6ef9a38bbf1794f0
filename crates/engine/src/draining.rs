//! A client that another one has taken the places of while it served. It goes on with what is open on it, and ends by itself with the last
//! of that: the kernel ends a filesystem that is neither mounted nor used. That end, in order or not, is no crash.

use crate::error::Error;
use crate::record::Record;
use crate::records::Records;

/// From here on, `old` is such a client's record.
pub fn begin(records: &Records, old: &Record, successor: &str) -> Result<(), Error> {
    records.rewrite(&Record { heal: None, keep_dead: false, replaced_by: Some(successor.to_owned()), ..old.clone() })
}

/// Whether it is one by now.
pub fn is_one(records: &Records, record: &Record) -> bool {
    matches!(records.get(&record.id), Ok(Some(now)) if now.replaced_by.is_some())
}
