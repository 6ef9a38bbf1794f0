//! Unmounting, bounded in time: polite, then forced, then lazy with the connection cut. Always our mount, never what others have put on it
//! (`sys::unmount`).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use shorefast_sys as sys;
use sys::unmount::{How, Outcome};

use crate::error::Error;
use crate::find;
use crate::process::Process;
use crate::reconcile;
use crate::record::Record;
use crate::records::Records;
use crate::state::{self, Look, Standing};

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Manner {
    /// A busy mount stays; one that hangs is forced.
    Polite,
    /// Out of sight at once, gone when nobody uses it.
    Lazy,
    /// Whatever it takes: its users get errors.
    Force,
}

/// How it was unmounted in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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

pub fn unmount(records: &Records, target: &Path, manner: Manner) -> Result<Way, Error> {
    let end = Instant::now() + ALTOGETHER;
    let record = match find::find(records, target) {
        Err(Error::NotOurs { path }) => return give_up(records, path, manner, end),
        found => found?,
    };
    let way = match Look::here().at(&record) {
        Some(Standing { elsewhere: Some(namespace), place: Some(_), .. }) if !find::is_id(target) => {
            return Err(Error::OtherNamespace { path: record.target.clone(), namespace, id: record.id });
        }
        Some(Standing { place: Some(place), .. }) => {
            let _lock = records.lock(&record.id, end);
            state::in_its_namespace(&record, || walk_down(&record, &place, manner, end)).unwrap_or(Ok(Way::Polite))?
        }
        // Gone already; what is left is its client.
        _ => match manner {
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

/// Ends a mount that is being made at `path`: whoever makes it is killed, and what it has started goes with it.
fn give_up(records: &Records, path: PathBuf, manner: Manner, end: Instant) -> Result<Way, Error> {
    let at_path = || -> Result<Option<Process>, Error> {
        let underway = records.underway()?;
        Ok(underway.into_iter().find(|(_, mount, _)| mount.target == path).map(|(_, _, maker)| maker))
    };
    match (at_path()?, manner) {
        (None, _) => Err(Error::NotOurs { path }),
        (Some(maker), Manner::Polite | Manner::Lazy) => Err(Error::Underway { path, pid: maker.pid }),
        (Some(maker), Manner::Force) => {
            maker.end(end);
            while at_path()?.is_some() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            reconcile::abandoned(records)?;
            if at_path()?.is_some() { Err(Error::Underway { path, pid: maker.pid }) } else { Ok(Way::Forced) }
        }
    }
}

/// The steps of each manner, gentle ones first, and how long each may take.
fn ladder(manner: Manner, record: &Record) -> Vec<(Way, How, Duration)> {
    // A FUSE connection that was cut has nothing to wait for any more: then the mount is unused, or only to be detached.
    let forced = if record.init.is_some() { How::IfUnused } else { How::Forced };
    match manner {
        Manner::Lazy => vec![(Way::Polite, How::IfUnused, LAZY), (Way::Lazy, How::Detached, LAZY)],
        Manner::Polite | Manner::Force => {
            vec![(Way::Polite, How::IfUnused, POLITE), (Way::Forced, forced, FORCED), (Way::Lazy, How::Detached, LAZY)]
        }
    }
}

fn walk_down(record: &Record, place: &Path, manner: Manner, end: Instant) -> Result<Way, Error> {
    let fail = |error: sys::Error| Error::Unmount { path: place.to_owned(), source: error.errno().into() };
    let mount = record.mount.into();
    for (way, how, patience) in ladder(manner, record) {
        if way != Way::Polite && manner != Manner::Lazy && record.init.is_some() {
            // Whoever waits for the client now gets an error instead.
            let _ = sys::unmount::abort_fuse(&mount);
        }
        match sys::unmount::unmount(&mount, how, end.min(Instant::now() + patience)) {
            Ok(Outcome::Unmounted | Outcome::NotHere) => return Ok(way),
            Ok(Outcome::Covered) => return Err(covered(record, place, manner)),
            Err(error) if error.errno() == rustix::io::Errno::TIMEDOUT => {}
            Err(error) if manner == Manner::Polite && way == Way::Polite => return Err(fail(error)),
            Err(error) if way == Way::Lazy => return Err(fail(error)),
            Err(_) => {}
        }
    }
    Err(Error::UnmountHangs { path: place.to_owned() })
}

/// Other people's mounts stay. By force, our client ends all the same.
fn covered(record: &Record, place: &Path, manner: Manner) -> Error {
    let describe =
        |entry: sys::mountinfo::Entry| format!("{} ({}) at {}", entry.fstype, entry.source.display(), entry.mount_point.display());
    let by = sys::mount::children_of(&record.mount.into()).unwrap_or_default().into_iter().map(describe).collect();
    let client_ended = manner == Manner::Force && record.init.is_some();
    if client_ended {
        let _ = sys::unmount::abort_fuse(&record.mount.into());
        reconcile::end_client(record);
    }
    Error::Covered { path: place.to_owned(), by, client_ended }
}

/// After the unmount the client ends by itself, and its keeper removes the record.
fn wait_for_client(records: &Records, record: &Record, manner: Manner, end: Instant) -> Result<(), Error> {
    let patience = if manner == Manner::Force { CLIENT_END_FORCED } else { CLIENT_END };
    let deadline = end.min(Instant::now() + patience);
    let is_gone = || matches!(records.get(&record.id), Ok(None)) || state::of(record).is_none();
    while !is_gone() {
        if Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        } else if manner == Manner::Force && reconcile::clean_up(records, record) {
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
            return clean_up(records, record);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn clean_up(records: &Records, record: &Record) -> Result<(), Error> {
    if reconcile::clean_up(records, record) { Ok(()) } else { Err(Error::UnmountHangs { path: record.target.clone() }) }
}
