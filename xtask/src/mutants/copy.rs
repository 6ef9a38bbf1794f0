//! A copy of the checkout's source, in which one file at a time is changed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::table::{Change, Mutant};
use crate::process;

pub(super) struct Copy {
    place: PathBuf,
}

/// Dropped: the file is as it was.
pub(super) struct Planted {
    file: PathBuf,
    original: String,
}

impl Copy {
    /// Of what git knows or would add, as it is in the working tree. Files that are the same already keep their times, so that cargo
    /// compiles only what differs from the last run.
    pub(super) fn of_checkout(place: &Path) -> Result<Self> {
        let listed = process::output(Command::new("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
        for name in listed.split('\0').filter(|name| !name.is_empty()) {
            let (from, to) = (Path::new(name), place.join(name));
            if let Err(error) = same(from, &to) {
                return Err(error).with_context(|| format!("cannot copy {name} to {}", place.display()));
            }
        }
        Ok(Self { place: place.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.place
    }

    pub(super) fn plant(&self, mutant: &Mutant) -> Result<Vec<Planted>> {
        mutant.changes.iter().map(|change| self.make(change)).collect()
    }

    fn make(&self, change: &Change) -> Result<Planted> {
        let file = self.place.join(&change.file);
        let original = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        fs::write(&file, change.apply(&original)?).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Planted { file, original })
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.file, &self.original) {
            eprintln!("cannot restore {}: {error}", self.file.display());
        }
    }
}

/// Makes `to` the same as `from`. A file that is gone from the working tree is left out.
fn same(from: &Path, to: &Path) -> std::io::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(from) else { return Ok(()) };
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if metadata.is_symlink() {
        let _ = fs::remove_file(to);
        return symlink(fs::read_link(from)?, to);
    }
    let content = fs::read(from)?;
    if fs::read(to).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::copy(from, to).map(drop)
}
