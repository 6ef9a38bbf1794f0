//! In: a ConfigMap mounted as a directory. Out: its last good state, kept across versions.
//!
//! kubelet updates such a directory by replacing one symlink: `..data` names the directory that holds all keys of one version. So a version
//! is read whole, and a reader can tell whether it has seen it before.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shorefast_image::Digest;

use crate::text;

/// The version that `..data` names now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    name: String,
    /// The keys of this version, which are immutable.
    pub snapshot: PathBuf,
}

impl Version {
    /// `None`: an ordinary directory.
    pub fn of(directory: &Path) -> Option<Self> {
        let name = fs::read_link(directory.join("..data")).ok()?;
        Some(Self { name: text::escape(name.as_os_str().as_bytes()), snapshot: directory.join(name) })
    }
}

/// The state kept for one directory.
#[derive(Debug)]
pub struct LastGood {
    file: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    version: String,
    files: Vec<(PathBuf, String)>,
}

impl LastGood {
    pub fn at(place: &Path, directory: &Path) -> Self {
        Self { file: place.join(format!("{}.json", Digest::of(directory.as_os_str().as_bytes()).hex())) }
    }

    /// Whether this version is the last good one.
    pub fn is(&self, version: &Version) -> bool {
        self.read().is_some_and(|kept| kept.version == version.name)
    }

    /// Without write permission there, such as in a dry run without root, nothing is kept.
    pub fn keep<'a>(&self, version: &Version, files: impl Iterator<Item = (PathBuf, &'a str)>) {
        let kept = Kept { version: version.name.clone(), files: files.map(|(path, text)| (path, text.to_owned())).collect() };
        let _ = self.write(&kept);
    }

    pub fn recall(&self) -> Option<Vec<(PathBuf, String)>> {
        self.read().map(|kept| kept.files)
    }

    fn read(&self) -> Option<Kept> {
        serde_json::from_slice(&shorefast_trust::read(&self.file, shorefast_trust::Chosen::ByPlace).ok()?).ok()
    }

    /// By rename: concurrent readers see the old or the new file.
    fn write(&self, kept: &Kept) -> std::io::Result<()> {
        let place = self.file.parent().unwrap_or(Path::new("/"));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(place)?;
        let new = self.file.with_extension(std::process::id().to_string());
        fs::write(&new, serde_json::to_vec(kept)?)?;
        fs::rename(new, &self.file)
    }
}
