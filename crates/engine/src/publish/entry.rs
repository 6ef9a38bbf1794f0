//! What is kept of a copy: a small file, named after its place. It counts only as long as something is mounted there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shorefast_image::Digest;

use crate::difference::Difference;
use crate::error::Error;
use crate::records::Records;
use crate::text;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Of the mount that was copied.
    pub label: String,
    #[serde(with = "text")]
    pub target: PathBuf,
    /// Where the mount is that was copied.
    #[serde(with = "text")]
    pub staged: PathBuf,
    /// The directory of it that was copied.
    #[serde(default, with = "text::optional")]
    pub inside: Option<PathBuf>,
    pub access: Access,
}

/// What the users of a copy may do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

impl Entry {
    /// Empty: the same copy.
    pub(crate) fn differences(&self, other: &Self) -> Vec<Difference> {
        let source =
            (self.label != other.label || self.staged != other.staged || self.inside != other.inside).then_some(Difference::Source);
        let options = (self.access != other.access).then_some(Difference::Options);
        source.into_iter().chain(options).collect()
    }
}

pub(crate) fn write(records: &Records, entry: &Entry) -> Result<(), Error> {
    let (directory, file) = (directory(records), file(records, &entry.target));
    let failed = |source| Error::Record { path: file.clone(), source };
    let new = directory.join(format!(".{}", std::process::id()));
    let bytes = serde_json::to_vec(entry).map_err(|error| failed(error.into()))?;
    let attempt = || fs::create_dir_all(&directory).and_then(|()| fs::write(&new, &bytes)).and_then(|()| fs::rename(&new, &file));
    // Whoever removes the last entry removes the directory, too.
    let vanished = |result: &std::io::Result<()>| result.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    let mut result = attempt();
    for _ in 0..100 {
        if !vanished(&result) {
            break;
        }
        result = attempt();
    }
    result.map_err(failed)
}

/// `None`: there is none, or it is damaged.
pub fn read(records: &Records, target: &Path) -> Option<Entry> {
    parse(&file(records, target)).filter(|entry| entry.target == target)
}

/// All copies of the mount that is at this place.
pub(crate) fn copies_of(records: &Records, staged: &Path) -> Vec<Entry> {
    all(records).into_iter().filter(|entry| entry.staged == staged).collect()
}

pub(crate) fn all(records: &Records) -> Vec<Entry> {
    fs::read_dir(directory(records)).into_iter().flatten().flatten().filter_map(|file| parse(&file.path())).collect()
}

/// Those that were written longer ago.
pub(crate) fn older_than(records: &Records, age: Duration) -> Vec<Entry> {
    let is_old = |file: &fs::DirEntry| {
        file.metadata().and_then(|file| file.modified()).is_ok_and(|then| then.elapsed().is_ok_and(|passed| passed > age))
    };
    fs::read_dir(directory(records)).into_iter().flatten().flatten().filter(is_old).filter_map(|file| parse(&file.path())).collect()
}

pub(crate) fn remove(records: &Records, target: &Path) {
    let _ = fs::remove_file(file(records, target));
    // Only the last one succeeds.
    let _ = fs::remove_dir(directory(records));
}

fn parse(file: &Path) -> Option<Entry> {
    fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok())
}

fn directory(records: &Records) -> PathBuf {
    records.directory().join("copies")
}

fn file(records: &Records, target: &Path) -> PathBuf {
    directory(records).join(Digest::of(target.as_os_str().as_encoded_bytes()).hex())
}
