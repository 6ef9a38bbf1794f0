//! Unmounting, bounded in time: polite, then forced, then lazy with the connection cut.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use shorefast_sys as sys;

use crate::error::Error;
use crate::record::{Record, Records};
use crate::{reconcile, state};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// A busy mount stays; one that hangs is forced.
    Polite,
    /// Out of sight at once, gone when nobody uses it.
    Lazy,
    /// Whatever it takes: its users get errors.
    Force,
}

/// How it was unmounted in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    Polite,
    Forced,
    Lazy,
}

/// How long each way may take.
const POLITE: Duration = Duration::from_secs(5);
const FORCED: Duration = Duration::from_secs(2);
const LAZY: Duration = Duration::from_secs(2);
/// A client may have data to write back before it ends.
const CLIENT_END: Duration = Duration::from_secs(8);
const CLIENT_END_FORCED: Duration = Duration::from_secs(3);

/// The internal command that tries one way, in a process that can be abandoned.
pub const ATTEMPT: &str = "__umount";

pub fn unmount(records: &Records, target: &Path, manner: Manner) -> Result<Way, Error> {
    let record = find(records, target)?;
    let place = sys::mount::place_of(&record.mount.into()).ok().flatten();
    let way = match place {
        Some(place) => walk_down(&record, &place, manner)?,
        None => Way::Lazy,
    };
    if manner != Manner::Lazy {
        wait_for_client(records, &record, manner)?;
    }
    Ok(way)
}

/// The record of the mount at `target`. Asks no server: the path is only opened, not used.
pub fn find(records: &Records, target: &Path) -> Result<Record, Error> {
    let target = std::path::absolute(target).unwrap_or_else(|_| target.to_owned());
    let place = rustix::fs::open(&target, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let here = place.ok().and_then(|fd| sys::mount::identify(std::os::fd::AsFd::as_fd(&fd)).ok());
    let all = records.all()?;
    let by_mount = all.iter().find(|record| here.is_some_and(|here| here == record.mount.into()));
    let by_path = || all.iter().rev().find(|record| record.target == target);
    by_mount.or_else(by_path).cloned().ok_or(Error::NotOurs { path: target })
}

fn walk_down(record: &Record, place: &Path, manner: Manner) -> Result<Way, Error> {
    let fail = |source| Error::Unmount { path: place.to_owned(), source };
    let ladder: &[(Way, libc::c_int, Duration)] = match manner {
        Manner::Lazy => &[(Way::Lazy, libc::MNT_DETACH, LAZY)],
        Manner::Polite | Manner::Force => {
            &[(Way::Polite, 0, POLITE), (Way::Forced, libc::MNT_FORCE, FORCED), (Way::Lazy, libc::MNT_DETACH, LAZY)]
        }
    };
    for (way, flags, patience) in ladder {
        if *way == Way::Lazy && manner != Manner::Lazy && record.init.is_some() {
            // Whoever waits for the client now gets an error instead.
            let _ = sys::mount::abort_fuse(record.mount.minor);
        }
        match attempt(place, *flags, *patience).map_err(fail)? {
            Attempt::Done => return Ok(*way),
            Attempt::Failed(error) if manner == Manner::Polite && *way == Way::Polite => return Err(fail(error)),
            Attempt::Failed(error) if *way == Way::Lazy => return Err(fail(error)),
            Attempt::Failed(_) | Attempt::Hangs => {}
        }
    }
    Err(Error::UnmountHangs { path: place.to_owned() })
}

enum Attempt {
    Done,
    Failed(std::io::Error),
    Hangs,
}

fn attempt(place: &Path, flags: libc::c_int, patience: Duration) -> std::io::Result<Attempt> {
    // Whatever we were called as, this is for `shorefast` to do; and for this version of it, also after an upgrade.
    let mut child =
        Command::new("/proc/self/exe").arg0("shorefast").arg(ATTEMPT).arg(flags.to_string()).arg(place).stdin(Stdio::null()).spawn()?;
    let deadline = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(match status.code() {
                Some(0) => Attempt::Done,
                Some(errno) => Attempt::Failed(std::io::Error::from_raw_os_error(errno)),
                None => Attempt::Hangs,
            });
        }
        if Instant::now() >= deadline {
            // It may be beyond killing for now; nobody waits for it.
            let _ = child.kill();
            return Ok(Attempt::Hangs);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The body of [`ATTEMPT`]: the exit code is the errno.
pub fn attempt_here(place: &Path, flags: libc::c_int) -> i32 {
    let flags = rustix::mount::UnmountFlags::from_bits_retain((flags | libc::UMOUNT_NOFOLLOW) as u32);
    rustix::mount::unmount(place, flags).err().map_or(0, |errno| errno.raw_os_error())
}

/// After the unmount the client ends by itself, and its keeper removes the record.
fn wait_for_client(records: &Records, record: &Record, manner: Manner) -> Result<(), Error> {
    let patience = if manner == Manner::Force { CLIENT_END_FORCED } else { CLIENT_END };
    let deadline = Instant::now() + patience;
    let is_gone = || matches!(records.get(&record.id), Ok(None)) || state::of(record).is_none();
    while !is_gone() {
        if Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        } else if manner == Manner::Force {
            reconcile::clean_up(records, record);
            return Ok(());
        } else {
            let pid = record.daemon().or(record.init).map_or(0, |process| process.pid);
            return Err(Error::Lingers { path: PathBuf::from(&record.target), pid });
        }
    }
    // The keeper does this too; together they leave nothing behind by the time we return.
    let keeper_deadline = Instant::now() + Duration::from_secs(2);
    while matches!(records.get(&record.id), Ok(Some(_))) {
        if Instant::now() >= keeper_deadline || !record.keeper.is_some_and(|keeper| keeper.is_alive()) {
            reconcile::clean_up(records, record);
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
