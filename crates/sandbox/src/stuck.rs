//! Processes of a sandbox that SIGKILL does not end: they wait for an answer of the filesystem that the sandbox itself should serve.
//! Each may hold the FUSE device that would have to be closed for the others to go on, so only an abort of the connection ends them.
//! Or they are frozen.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;

use rustix::process::Pid;
use shorefast_sys as sys;

use crate::cgroup;
use crate::spec::TARGET;

/// Aborts the connection of every FUSE filesystem that these processes see at the sandbox's target, and thaws them.
pub fn free(processes: &[Pid]) {
    processes.iter().copied().for_each(cgroup::thaw);
    let mut seen = BTreeSet::new();
    for thread in processes.iter().flat_map(|process| threads(*process)) {
        // As long as the namespace is held, its mounts are there, and the number of a device is not somebody else's.
        let Ok(namespace) = File::open(thread.join("ns/mnt")) else { continue };
        let table = fs::read(thread.join("mountinfo")).unwrap_or_default();
        for minor in served_devices(&table).filter(|minor| seen.insert(*minor)).collect::<Vec<_>>() {
            let _ = sys::unmount::abort_connection(minor);
        }
        drop(namespace);
    }
}

/// A process whose first thread has ended is still there if another one waits.
fn threads(process: Pid) -> Vec<PathBuf> {
    let threads = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).into_iter().flatten();
    threads.filter_map(|thread| Some(thread.ok()?.path())).collect()
}

fn served_devices(table: &[u8]) -> impl Iterator<Item = u32> {
    let is_fuse = |fstype: &str| matches!(fstype.split('.').next(), Some("fuse" | "fuseblk"));
    let at_target = move |entry: &sys::mountinfo::Entry| entry.mount_point == *TARGET && is_fuse(&entry.fstype);
    sys::mountinfo::parse(table).into_iter().filter(at_target).map(|entry| entry.minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fuse_at_the_target_is_the_sandboxs_own() {
        let rows = [
            ("/shorefast/target", "fuse.sshfs", vec![77]),
            ("/shorefast/target", "fuse", vec![77]),
            ("/shorefast/target", "nfs4", vec![]),
            ("/shorefast/target", "fusectl", vec![]),
            ("/shorefast/source", "fuse.sshfs", vec![]),
        ];
        for (point, fstype, expected) in rows {
            let line = format!("36 35 0:77 / {point} rw - {fstype} x rw\n");
            assert_eq!(served_devices(line.as_bytes()).collect::<Vec<_>>(), expected, "{line}");
        }
    }
}
