//! Limited resources of a host, as far as the processes of one test use them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::processes::{self, Process};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    pub processes: usize,
    /// Entries in the descriptor tables of these processes: at least as many as count towards fs.file-max.
    pub open_files: usize,
    pub inotify_instances: usize,
    pub inotify_watches: usize,
    pub user_namespaces: usize,
    pub mount_namespaces: usize,
    /// Those of root, on the whole machine.
    pub keys: usize,
}

impl Resources {
    /// Those of every process on the calling thread's network; see [`processes::on_this_network`].
    pub fn now() -> Self {
        Self::of(&processes::on_this_network())
    }

    pub fn of(processes: &[Process]) -> Self {
        let links: Vec<(PathBuf, PathBuf)> = processes.iter().flat_map(descriptors).collect();
        let inotify: Vec<_> = links.iter().filter(|(_, target)| target.as_os_str() == "anon_inode:inotify").collect();
        Self {
            processes: processes.len(),
            open_files: links.len(),
            inotify_instances: inotify.len(),
            inotify_watches: inotify.iter().map(|(link, _)| watches(link)).sum(),
            user_namespaces: namespaces(processes, "user"),
            mount_namespaces: namespaces(processes, "mnt"),
            keys: keys_of_root(),
        }
    }
}

fn descriptors(process: &Process) -> Vec<(PathBuf, PathBuf)> {
    let entries = fs::read_dir(process.file("fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.path(), fs::read_link(entry.path()).ok()?))).collect()
}

fn watches(link: &std::path::Path) -> usize {
    let info = link.to_string_lossy().replacen("/fd/", "/fdinfo/", 1);
    fs::read_to_string(info).unwrap_or_default().lines().filter(|line| line.starts_with("inotify wd")).count()
}

fn namespaces(processes: &[Process], kind: &str) -> usize {
    processes.iter().filter_map(|process| fs::read_link(process.file("ns").join(kind)).ok()).collect::<BTreeSet<_>>().len()
}

fn keys_of_root() -> usize {
    let users = fs::read_to_string("/proc/key-users").unwrap_or_default();
    let line = users.lines().find_map(|line| line.trim_start().strip_prefix("0:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.split('/').next()?.parse().ok()).unwrap_or(0)
}
