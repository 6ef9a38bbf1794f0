//! Unblocks processes of a sandbox that SIGKILL does not end. Takes their pids, and aborts FUSE connections and thaws
//! cgroups so that the kill takes effect. Runs in the launching process, or in the process that cleans up after a
//! mount.
//!
//! Such processes wait for a reply of the very filesystem that the sandbox should serve. Each of them may hold the FUSE
//! device that has to be closed before the others can continue, so only aborting the connection ends them. Or they are
//! frozen by the v1 freezer.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::Pid;
use shorefast_sys as sys;
use sys::bounded_call::{self, Bounded};

use crate::cgroup;
use crate::spec::TARGET;

/// For a thread that does not hang.
const FOR_ONE: Duration = Duration::from_millis(200);

/// Aborts the connection of every FUSE filesystem that these processes see mounted at the sandbox's target, and thaws
/// the processes.
pub fn free(processes: &[Pid]) {
    processes.iter().copied().for_each(cgroup::thaw);
    let mut seen = BTreeSet::new();
    for thread in processes.iter().flat_map(|process| threads(*process)) {
        // While the mount namespace is held open, its mounts exist, so their device numbers cannot be reused by another
        // mount.
        // The namespace of a process that hangs in execve cannot be opened; the process itself holds it as long as it hangs.
        let namespace = match bounded_call::open(&thread.join("ns/mnt"), OFlags::RDONLY, Instant::now() + FOR_ONE) {
            Bounded::Done(namespace) => Some(namespace),
            Bounded::TimedOut => None,
            Bounded::Failed(_) => continue,
        };
        let table = fs::read(thread.join("mountinfo")).unwrap_or_default();
        for minor in served_devices(&table).filter(|minor| seen.insert(*minor)).collect::<Vec<_>>() {
            let _ = sys::unmount::abort_connection(minor);
        }
        drop(namespace);
    }
}

/// A process whose main thread has exited still exists while another thread of it is blocked.
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
