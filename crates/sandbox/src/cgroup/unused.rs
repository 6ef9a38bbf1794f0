//! Cgroups of ours without processes: what a killed launching process leaves if nothing else is left that names it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::cgroup::{Cgroup, PARENT, hierarchies};

impl Cgroup {
    /// All cgroups without processes that have existed for so long, by the id of their client. A mount that is being made has such
    /// cgroups, too, for a moment.
    pub fn unused_for(age: Duration) -> BTreeMap<String, Self> {
        let mut found = BTreeMap::<String, Self>::new();
        for hierarchy in hierarchies() {
            for directory in directories_in(&hierarchy.mount_point.join(PARENT)).into_iter().filter(|directory| is_unused(directory, age)) {
                if let Some(id) = directory.file_name().and_then(|name| name.to_str()) {
                    found.entry(id.to_owned()).or_default().directories.push(directory);
                }
            }
        }
        found
    }
}

fn directories_in(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// A cgroup that cannot be looked at counts as used.
fn is_unused(directory: &Path, age: Duration) -> bool {
    let has_none = |name: &str| fs::read_to_string(directory.join(name)).is_ok_and(|processes| processes.is_empty());
    has_none("cgroup.procs") && directories_in(directory).is_empty() && is_older(directory, age)
}

/// By the directory's change time, which is when the kernel made its inode: with the cgroup or later, never earlier.
fn is_older(directory: &Path, age: Duration) -> bool {
    let since = |seconds: i64| UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?));
    let changed = fs::symlink_metadata(directory).ok().and_then(|metadata| since(metadata.ctime()));
    changed.and_then(|changed| SystemTime::now().duration_since(changed).ok()).is_some_and(|existed| existed > age)
}
