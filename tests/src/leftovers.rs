//! Is anything left? Compared with what was there before the test began to mount.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::mountinfo::{self, Mount};
use crate::processes::{self, Process};
use crate::{cgroups, wait};

/// Cleaning up after a plain `umount` runs concurrently, so it may take a moment, and much longer in a guest on a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Before {
    mounts: Vec<Mount>,
    processes: Vec<Process>,
    cgroups: Vec<PathBuf>,
}

impl Before {
    pub(crate) fn now() -> Self {
        Self { mounts: mountinfo::here(), processes: processes::on_this_network(), cgroups: cgroups::abandoned() }
    }

    #[track_caller]
    pub(crate) fn assert_nothing_left(&self, run_directory: &Path) {
        let left = self.what_is_left(run_directory);
        assert!(left.is_none(), "left behind:\n{}", left.unwrap_or_default());
    }

    pub(crate) fn what_is_left(&self, run_directory: &Path) -> Option<String> {
        self.what_is_left_after(run_directory, || {})
    }

    /// `step` runs before each check.
    pub(crate) fn what_is_left_after(&self, run_directory: &Path, mut step: impl FnMut()) -> Option<String> {
        // Once everything was gone, this check has passed: actions of other tests can look like a leftover for an instant.
        let mut left = self.leftovers(run_directory);
        wait::within(GONE_WITHIN, || {
            step();
            left = self.leftovers(run_directory);
            left.is_empty().then_some(())
        });
        (!left.is_empty()).then(|| left.to_string())
    }

    fn leftovers(&self, run_directory: &Path) -> Leftovers {
        let mut files = Vec::new();
        collect_files(run_directory, &mut files);
        Leftovers {
            mounts: mountinfo::here().into_iter().filter(|mount| !self.mounts.contains(mount)).collect(),
            processes: processes::on_this_network().into_iter().filter(|process| !self.processes.contains(process)).collect(),
            files,
            cgroups: cgroups::abandoned().into_iter().filter(|cgroup| !self.cgroups.contains(cgroup)).collect(),
        }
    }
}

struct Leftovers {
    mounts: Vec<Mount>,
    processes: Vec<Process>,
    files: Vec<PathBuf>,
    cgroups: Vec<PathBuf>,
}

impl Leftovers {
    fn is_empty(&self) -> bool {
        self.mounts.is_empty() && self.processes.is_empty() && self.files.is_empty() && self.cgroups.is_empty()
    }
}

impl fmt::Display for Leftovers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mounts.iter().try_for_each(|mount| writeln!(out, "mount {mount:?}"))?;
        self.processes.iter().try_for_each(|process| writeln!(out, "process {}", process.describe()))?;
        self.files.iter().try_for_each(|file| writeln!(out, "file {}", file.display()))?;
        self.cgroups.iter().try_for_each(|cgroup| writeln!(out, "cgroup {}", cgroup.display()))
    }
}

/// A lock file records nothing: it may stay, as in other programs that use lock files.
fn collect_files(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.filter_map(Result::ok) {
        if entry.path().ends_with("shorefast/past") {
            // The history of ended mounts is kept on purpose.
        } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect_files(&entry.path(), files);
        } else if !entry.file_name().as_encoded_bytes().ends_with(b"lock") {
            files.push(entry.path());
        }
    }
}
