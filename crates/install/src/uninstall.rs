//! Uninstalling: removes the recorded files that are unchanged.

use std::path::{Path, PathBuf};

use crate::decide;
use crate::error::Error;
use crate::host::{Found, HostRoot};
use crate::manifest::{self, Manifest, Recorded};
use crate::place;

#[derive(Debug)]
pub struct Plan {
    directory: PathBuf,
    manifest: Manifest,
}

/// `asked`: where it was installed; if not given, it is searched.
pub fn plan(host: &HostRoot, asked: Option<&Path>) -> Result<Plan, Error> {
    match place::installed(host, asked)? {
        Some((directory, manifest)) => Ok(Plan { directory, manifest }),
        None => {
            let looked = asked.map_or_else(|| place::CANDIDATES.map(PathBuf::from).to_vec(), |asked| vec![asked.to_owned()]);
            let looked = looked.into_iter().map(|path| (path, format!("no {}", manifest::NAME))).collect();
            Err(Error::NotInstalled { looked })
        }
    }
}

impl Plan {
    /// A line per path: removed, or left because it was changed.
    pub fn lines(&self, host: &HostRoot) -> Result<Vec<String>, Error> {
        let mut lines = Vec::new();
        for path in decide::removal_order(self.manifest.items.keys()) {
            match host.find(path)? {
                Found::Nothing => {}
                found if decide::is_ours(&found, &self.manifest.items[path]) => lines.push(decide::describe_removal(path)),
                _ => lines.push(format!("leave    {} (changed since it was installed)", path.display())),
            }
        }
        Ok(lines)
    }

    /// Continues after a file that cannot be removed, and reports that in the end.
    pub fn carry_out(self, host: &HostRoot) -> Result<(), Error> {
        let Self { directory, manifest } = self;
        let mut left = Vec::new();
        // The record is in one of our directories. Without it an interrupted removal could not be completed, so it is removed last.
        let (last, first): (Vec<_>, Vec<_>) =
            decide::removal_order(manifest.items.keys()).into_iter().partition(|path| directory.starts_with(path));
        for path in first {
            if let Outcome::NotOurs = remove(host, path, &manifest.items[path])? {
                left.push(path.clone());
            }
        }
        host.remove_file(&directory.join(manifest::NAME))?;
        last.into_iter().try_for_each(|path| host.remove_directory(path))?;
        left.sort();
        if left.is_empty() { Ok(()) } else { Err(Error::Left { paths: left }) }
    }
}

enum Outcome {
    Gone,
    NotOurs,
}

fn remove(host: &HostRoot, path: &Path, recorded: &Recorded) -> Result<Outcome, Error> {
    match host.find(path)? {
        Found::Nothing => Ok(Outcome::Gone),
        found if !decide::is_ours(&found, recorded) => Ok(Outcome::NotOurs),
        // A directory that is not empty stays.
        Found::Directory => host.remove_directory(path).map(|()| Outcome::Gone),
        _ => host.remove_file(path).map(|()| Outcome::Gone),
    }
}
