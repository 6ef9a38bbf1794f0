//! In: the mount namespace of the launching process. Out: the namespace in which the keeper waits, and the way back.
//!
//! A mount namespace lives as long as a process is in it. A keeper would keep a service's or container's private namespace alive, and with
//! it the mount, the client and itself. So, unless the launching process is in the namespace of the host's pid 1, the keeper waits there.
//! When the sandbox ends, it returns to the namespace in which the mount was made, if that still exists, because the run directory has its
//! path there.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use shorefast_sys as sys;
use sys::process_scan;

/// Where the keeper waits.
#[derive(Debug)]
pub struct Station {
    /// `-`, or the launching process's mount namespace and a process that may still be in it: `INODE:PID`.
    pub origin: String,
    pub away: Option<Away>,
}

/// In another namespace than the launching process's.
#[derive(Debug)]
pub struct Away {
    pub namespace: OwnedFd,
    /// The namespace may end meanwhile; the directory is needed after that.
    pub run_dir: OwnedFd,
}

pub fn station(run_dir: &Path) -> sys::Result<Station> {
    let here = Station { origin: "-".to_owned(), away: None };
    let Some(first) = sys::namespace::lasting_mounts() else { return Ok(here) };
    let own = sys::namespace::own_mounts()?;
    let inode = |namespace: &OwnedFd| rustix::fs::fstat(namespace).map_or(0, |status| status.st_ino);
    if inode(&first) == inode(&own) {
        return Ok(here);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let run_dir = sys::call(|| format!("open({run_dir:?})"), rustix::fs::open(run_dir, flags, Mode::empty()))?;
    let caller = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    Ok(Station { origin: format!("{}:{caller}", inode(&own)), away: Some(Away { namespace: first, run_dir }) })
}

/// Returns to the namespace in which the mount was made, or else gives the path by which the run directory is reached from here.
pub fn return_to(origin: &str, run_dir: &Path) -> PathBuf {
    let Some((namespace, caller)) = origin.split_once(':').and_then(|(inode, pid)| Some((inode.parse().ok()?, pid.parse().ok()?))) else {
        return run_dir.to_owned();
    };
    if open(namespace, [caller]).is_some_and(|opened| sys::namespace::join_mount(opened.as_fd()).is_ok()) {
        return run_dir.to_owned();
    }
    let held = PathBuf::from(format!("/proc/self/fd/{}", sys::shim::RUN_DIR));
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|directory| (directory.dev(), directory.ino()));
    if identity(run_dir) == identity(&held) { run_dir.to_owned() } else { held }
}

/// A mount namespace by its inode. `hints`: pids that may be in it; tried first. `None`: it is gone. (Before Linux 6.12: no thread is in
/// it. It may still exist if only a descriptor or an nsfs bind mount holds it.)
pub fn open(namespace: u64, hints: impl IntoIterator<Item = i32>) -> Option<OwnedFd> {
    let of_pid = |pid: i32| {
        // It may be any process by now.
        let path = process_scan::directory(Pid::from_raw(pid)?).join("ns/mnt");
        let opened = sys::bounded_call::open(&path, OFlags::RDONLY, Instant::now() + FOR_HINT).or_timed_out(String::new);
        if_it_is(namespace, opened.ok()?)
    };
    let by_kernel = || sys::namespace::search_mounts(sys::namespace::lasting_mounts()?, namespace);
    hints.into_iter().find_map(of_pid).or_else(by_kernel).or_else(|| of_any_thread(namespace))
}

const FOR_HINT: Duration = Duration::from_millis(500);

/// The pid may have been reused by another process.
fn if_it_is(namespace: u64, opened: OwnedFd) -> Option<OwnedFd> {
    rustix::fs::fstat(&opened).is_ok_and(|status| status.st_ino == namespace).then_some(opened)
}

fn of_any_thread(namespace: u64) -> Option<OwnedFd> {
    let found = sys::bounded_call::mounts_of_threads(Instant::now() + PATIENCE).ok()?;
    found.into_iter().find_map(|(inode, opened)| (inode == namespace).then_some(opened))
}

/// For all threads of the host.
const PATIENCE: Duration = Duration::from_secs(5);
