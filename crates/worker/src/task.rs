//! Volumes that are directories of another volume, their base: the requests, and the notes. Values only.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shorefast_engine::text;
use shorefast_image::Digest;

/// A request about a directory of a base volume. Each directory has a key ([`key`]).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    Create(NewVolume),
    Delete(String),
    Find(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewVolume {
    pub name: String,
    /// Below the root of the base.
    #[serde(with = "text")]
    pub directory: PathBuf,
    /// Bytes; not enforced.
    pub required: u64,
    /// Zero: none.
    pub limit: u64,
    /// Of the directory.
    pub mode: u32,
    pub on_delete: OnDelete,
    /// Identifies the request's other parameters, to recognise a repeated request.
    pub made_of: String,
}

/// The note of a volume, which is stored on its base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The name in the request.
    pub name: String,
    /// Below the root of the base.
    #[serde(with = "text")]
    pub directory: PathBuf,
    pub capacity: u64,
    pub on_delete: OnDelete,
    #[serde(default)]
    pub made_of: String,
}

/// What happens to the directory when its volume is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDelete {
    /// It is removed with its content.
    Delete,
    Retain,
    /// It is renamed.
    Archive,
}

/// The note's name. Two volumes cannot have the same directory.
pub fn key(directory: &Path) -> String {
    Digest::of(directory.as_os_str().as_encoded_bytes()).hex()[..20].to_owned()
}
