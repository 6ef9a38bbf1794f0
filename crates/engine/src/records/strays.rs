//! Files in the run directory that belong to no mount, or cannot be read.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, DirEntryExt, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::records::Records;

/// A file in the place of a record that cannot be read as one.
#[derive(Clone, Debug)]
pub struct Unreadable {
    pub path: PathBuf,
    pub why: String,
}

impl Records {
    /// Removes leftovers of records that are gone.
    pub fn remove_strays(&self) -> Result<(), Error> {
        for log in self.stray_logs()? {
            let _ = fs::remove_file(log);
        }
        for entry in self.stray_entries()? {
            let is_it = |file: &Path| fs::symlink_metadata(file).is_ok_and(|now| now.ino() == entry.ino());
            self.remove_entry(&entry.path(), &format!("stray-{}", std::process::id()), is_it);
        }
        self.remove_empty_directories();
        Ok(())
    }

    /// Logs that belong to no mount.
    fn stray_logs(&self) -> Result<Vec<PathBuf>, Error> {
        // Logs first: a log created meanwhile is not in this list.
        let names = self.names(&self.directory)?;
        let (unfinished, services) = (self.unfinished()?, self.names(&self.services())?);
        let records: HashSet<_> = names.iter().chain(&services).filter_map(|name| name.strip_suffix(".json")).collect();
        let is_known = |id: &str| records.contains(id) || self.path(id).exists() || unfinished.iter().any(|(other, _)| other == id);
        let known = names.iter().filter_map(|name| name.strip_suffix(".log")).filter(|id| !is_known(id));
        Ok(known.map(|id| self.log(id)).collect())
    }

    /// Index entries whose record is gone: they are hard links to it.
    fn stray_entries(&self) -> Result<Vec<fs::DirEntry>, Error> {
        let files = |directory: &Path| match fs::read_dir(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            entries => entries.and_then(|entries| entries.collect::<io::Result<Vec<_>>>()).map_err(|error| self.error(error)),
        };
        // The index first: a record is written before it is indexed.
        let index = files(&self.directory.join("by-mount"))?;
        let records: HashSet<_> = files(&self.directory)?.iter().map(DirEntryExt::ino).collect();
        Ok(index.into_iter().filter(|entry| !records.contains(&entry.ino())).collect())
    }

    /// Moves an unreadable record out of the way, for inspection.
    pub fn set_aside(&self, unreadable: &Unreadable) -> io::Result<PathBuf> {
        let place = self.directory.join("unreadable");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&place)?;
        let aside = place.join(unreadable.path.file_name().unwrap_or_default());
        fs::rename(&unreadable.path, &aside)?;
        Ok(aside)
    }

    /// Unreadable records that were moved earlier.
    pub fn aside(&self) -> Vec<PathBuf> {
        let place = self.directory.join("unreadable");
        self.names(&place).unwrap_or_default().into_iter().map(|name| place.join(name)).collect()
    }
}
