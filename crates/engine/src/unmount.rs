//! Unmounting, bounded in time: polite, then forced, then lazy with the connection cut.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::mount::UnmountFlags;
use shorefast_sys as sys;
use sys::errand::{self, Errand};

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

/// How long each way may take, and all of it.
const POLITE: Duration = Duration::from_secs(3);
const FORCED: Duration = Duration::from_millis(1500);
const LAZY: Duration = Duration::from_secs(1);
const ALTOGETHER: Duration = Duration::from_secs(8);
/// A client may have data to write back before it ends. Waiting for that, and then forcing it, is over in ten seconds.
const CLIENT_END: Duration = Duration::from_secs(5);
const CLIENT_END_FORCED: Duration = Duration::from_secs(2);
/// What the keeper then has to do asks nobody.
const KEEPER_END: Duration = Duration::from_secs(1);
/// A path that is no place of a mount may still lead to one: by a symbolic link.
const RESOLVE: Duration = Duration::from_secs(2);

pub fn unmount(records: &Records, target: &Path, manner: Manner) -> Result<Way, Error> {
    let end = Instant::now() + ALTOGETHER;
    let record = find(records, target)?;
    let place = sys::mount::place_of(&record.mount.into()).ok().flatten();
    let way = match place {
        Some(place) => walk_down(&record, &place, manner, end)?,
        // Gone already; what is left is its client.
        None => match manner {
            Manner::Polite => Way::Polite,
            Manner::Lazy => Way::Lazy,
            Manner::Force => Way::Forced,
        },
    };
    if manner != Manner::Lazy {
        wait_for_client(records, &record, manner, end)?;
    }
    Ok(way)
}

/// The record of the mount at `target`. First the kernel's table is asked: a look at the path would
/// wait for its server.
pub fn find(records: &Records, target: &Path) -> Result<Record, Error> {
    let target = std::path::absolute(target).unwrap_or_else(|_| target.to_owned());
    let mut all = records.all()?;
    all.reverse();
    let at_path = || all.iter().filter(|record| record.target == target);
    let by_place = at_path().find(|record| is_at(record, &target));
    let by_mount = || {
        let here = identity_at(&target)?;
        all.iter().find(|record| here == record.mount.into())
    };
    let found = by_place.or_else(by_mount).or_else(|| at_path().next()).cloned();
    found.ok_or(Error::NotOurs { path: target })
}

fn identity_at(path: &Path) -> Option<sys::mount::Identity> {
    match errand::open(path, OFlags::PATH, Instant::now() + RESOLVE) {
        Errand::Done(place) => sys::mount::identify(place.as_fd()).ok(),
        Errand::Failed(_) | Errand::Late => None,
    }
}

fn walk_down(record: &Record, place: &Path, manner: Manner, end: Instant) -> Result<Way, Error> {
    let fail = |error: sys::Error| Error::Unmount { path: place.to_owned(), source: error.errno().into() };
    let ladder: &[(Way, UnmountFlags, Duration)] = match manner {
        Manner::Lazy => &[(Way::Lazy, UnmountFlags::DETACH, LAZY)],
        Manner::Polite | Manner::Force => &[
            (Way::Polite, UnmountFlags::empty(), POLITE),
            (Way::Forced, UnmountFlags::FORCE, FORCED),
            (Way::Lazy, UnmountFlags::DETACH, LAZY),
        ],
    };
    for (way, flags, patience) in ladder {
        if *way == Way::Lazy && manner != Manner::Lazy && record.init.is_some() {
            // Whoever waits for the client now gets an error instead.
            let _ = sys::mount::abort_fuse(record.mount.minor);
        }
        match errand::unmount(place, *flags | UnmountFlags::NOFOLLOW, end.min(Instant::now() + *patience)) {
            Errand::Done(()) => return Ok(*way),
            Errand::Failed(error) if manner == Manner::Polite && *way == Way::Polite => return Err(fail(error)),
            Errand::Failed(error) if *way == Way::Lazy => return Err(fail(error)),
            Errand::Failed(_) => {}
            // Off the tree already, with data that its server does not take: nothing is left here to be unmounted, and what
            // is at the place now is somebody else's.
            Errand::Late if !is_at(record, place) => return Ok(Way::Lazy),
            Errand::Late => {}
        }
    }
    Err(Error::UnmountHangs { path: place.to_owned() })
}

fn is_at(record: &Record, place: &Path) -> bool {
    sys::mount::place_of(&record.mount.into()).is_ok_and(|now| now.as_deref() == Some(place))
}

/// After the unmount the client ends by itself, and its keeper removes the record.
fn wait_for_client(records: &Records, record: &Record, manner: Manner, end: Instant) -> Result<(), Error> {
    let patience = if manner == Manner::Force { CLIENT_END_FORCED } else { CLIENT_END };
    let deadline = end.min(Instant::now() + patience);
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
    let keeper_deadline = Instant::now() + KEEPER_END;
    while matches!(records.get(&record.id), Ok(Some(_))) {
        if Instant::now() >= keeper_deadline || !record.keeper.is_some_and(|keeper| keeper.is_alive()) {
            reconcile::clean_up(records, record);
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
