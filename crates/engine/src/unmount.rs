//! In: a target and a manner. Out: an unmount, bounded in time: polite, then forced, then lazy with the connection aborted. Only ever our
//! mount, never another one on top of it (`sys::unmount`).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use shorefast_sys as sys;
use sys::ring::Log;
use sys::unmount::{How, Outcome};

use crate::client_end::ClientEnd;
use crate::draining;
use crate::error::{Diagnostics, Error};
use crate::find;
use crate::last_words;
use crate::process::Process;
use crate::reconcile;
use crate::record::Record;
use crate::records::Records;
use crate::state::{self, Look, Standing, State};
use crate::wait_status::WaitStatus;

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Manner {
    /// A busy mount stays; one that hangs is forced.
    Polite,
    /// Detached at once, gone when no longer in use.
    Lazy,
    /// Unmount in any case: its users get errors.
    Force,
}

/// The way that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    Polite,
    Forced,
    Lazy,
}

/// Time limits for each way, and for all of them.
const POLITE: Duration = Duration::from_secs(3);
const FORCED: Duration = Duration::from_millis(1500);
const LAZY: Duration = Duration::from_secs(1);
const ALTOGETHER: Duration = Duration::from_secs(8);
/// A client may have data to write back before it ends. Waiting for that, and then forcing it, takes at most ten seconds.
const CLIENT_END: Duration = Duration::from_secs(5);
const CLIENT_END_FORCED: Duration = Duration::from_secs(2);
/// The keeper's cleanup after that contacts no server.
const KEEPER_END: Duration = Duration::from_secs(1);

pub fn unmount(records: &Records, target: &Path, manner: Manner) -> Result<Way, Error> {
    let end = Instant::now() + ALTOGETHER;
    let mut done = None;
    loop {
        let record = match (find::find(records, target), done) {
            // It went by itself meanwhile.
            (Err(Error::NotOurs { .. }), Some(way)) => return Ok(way),
            (Err(Error::NotOurs { path }), None) => return give_up(records, path, manner, end),
            (found, _) => found?,
        };
        wait_for_takeover(records, &record);
        let (way, by) = unmount_one(records, target, &record, manner, end)?;
        if !has_successor(records, target, &record, by) || Instant::now() >= end {
            if manner == Manner::Force {
                end_predecessors(records, &record);
            }
            return Ok(way);
        }
        done = Some(way);
    }
}

/// How long a mount may take that is just being put in the place of another: as long it is busy.
const TAKEOVER: Duration = Duration::from_secs(2);

fn wait_for_takeover(records: &Records, record: &Record) {
    let until = Instant::now() + TAKEOVER;
    while record.first.is_some() && records.is_unfinished(&record.id) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Those that still served what was open on them.
fn end_predecessors(records: &Records, record: &Record) {
    let is_one = |other: &Record| other.replaced_by.is_some() && other.lineage() == record.lineage();
    let all = if record.first.is_some() { records.all().unwrap_or_default() } else { Vec::new() };
    for old in all.iter().filter(|other| is_one(other) && state::of(records, other) == Some(State::Draining)) {
        reconcile::clean_up(records, old);
    }
}

/// Who has taken a mount off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// This call, under the lock that whoever puts another client in its place has to have, too.
    Us,
    /// It was gone before, or is somewhere else.
    Others,
}

/// Whether its client died, or was upgraded, and a new one had taken over before it was unmounted: then that one is meant. What we took off
/// ourselves had none before; only what is at its place by now is looked at then, and not the records of all mounts.
fn has_successor(records: &Records, target: &Path, record: &Record, by: By) -> bool {
    let is_it = |other: Record| other.id != record.id && other.lineage() == record.lineage();
    let found = || match by {
        By::Us => find::at(records, target),
        By::Others => find::find(records, target).ok(),
    };
    record.init.is_some() && found().is_some_and(is_it)
}

fn unmount_one(records: &Records, target: &Path, record: &Record, manner: Manner, end: Instant) -> Result<(Way, By), Error> {
    let standing = Look::here(records).at(record);
    // Its name goes with the record.
    let is_served = standing.as_ref().is_some_and(|now| matches!(now.state, State::Serving | State::Detached));
    let log = fs::File::open(records.log(&record.id)).ok().filter(|_| is_served);
    let (way, by) = match standing {
        Some(Standing { elsewhere: Some(namespace), place: Some(_), .. }) if !find::is_id(target) => {
            return Err(Error::OtherNamespace { path: record.target.clone(), namespace, id: record.id.clone() });
        }
        Some(Standing { place: Some(place), .. }) => {
            let lock = records.lock(&record.id, end);
            let is_ours = state::ownership(records, record);
            if manner == Manner::Force {
                reconcile::retire(records, record);
            }
            let walked = state::in_its_namespace(record, || walk_down(record, &place, manner, end, &is_ours));
            let (way, outcome) = walked.unwrap_or(Ok((Way::Polite, Outcome::NotHere)))?;
            (way, if outcome == Outcome::Unmounted && lock.is_some() { By::Us } else { By::Others })
        }
        // Unmounted already; only its client is left.
        _ => match manner {
            Manner::Polite => (Way::Polite, By::Others),
            Manner::Lazy => (Way::Lazy, By::Others),
            Manner::Force => (Way::Forced, By::Others),
        },
    };
    // Its client goes on with what is open on it, and is not waited for.
    let drains = record.replaced_by.is_none() && draining::is_one(records, record);
    if manner != Manner::Lazy && !drains {
        wait_for_client(records, record, manner, end)?;
        log.filter(|_| way == Way::Polite).map_or(Ok(()), |log| ended_well(&log, record))?;
    }
    Ok((way, by))
}

/// Whether the client ended with success: one that could not write back what it had says so by its exit status alone.
fn ended_well(log: &fs::File, record: &Record) -> Result<(), Error> {
    let path = &record.target;
    let log = Log::read_from(log).unwrap_or_default();
    match log.ended.map(WaitStatus) {
        Some(status) if !ClientEnd::new(Some(status), None).is_well(&record.ends_with) => {
            let said = Diagnostics { helper: last_words::of(&log, path), refused: Vec::new() };
            Err(Error::EndedBadly { path: path.to_owned(), status, said })
        }
        _ => Ok(()),
    }
}

/// Ends a mount in progress at `path`: its launching process is killed, and everything that it started ends with it.
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

/// The steps of each manner, gentle ones first, with their time limits.
fn ladder(manner: Manner, record: &Record) -> Vec<(Way, How, Duration)> {
    // An aborted FUSE connection has no pending requests: the mount is either unused, or can only be detached.
    let forced = if record.init.is_some() { How::IfUnused } else { How::Forced };
    match manner {
        Manner::Lazy => vec![(Way::Polite, How::IfUnused, LAZY), (Way::Lazy, How::Detached, LAZY)],
        Manner::Polite | Manner::Force => {
            vec![(Way::Polite, How::IfUnused, POLITE), (Way::Forced, forced, FORCED), (Way::Lazy, How::Detached, LAZY)]
        }
    }
}

fn walk_down(record: &Record, place: &Path, manner: Manner, end: Instant, is_ours: &impl Fn() -> bool) -> Result<(Way, Outcome), Error> {
    let fail = |error: sys::Error| Error::Unmount { path: place.to_owned(), source: error.errno().into() };
    let mount = record.mount.into();
    for (way, how, patience) in ladder(manner, record) {
        if way != Way::Polite && manner != Manner::Lazy && record.init.is_some() {
            // Processes that wait for the client get an error instead.
            let _ = sys::unmount::abort_fuse(&mount, is_ours);
        }
        match sys::unmount::unmount(&mount, how, end.min(Instant::now() + patience), is_ours) {
            Ok(outcome @ (Outcome::Unmounted | Outcome::NotHere)) => return Ok((way, outcome)),
            Ok(Outcome::Covered) => return Err(covered(record, place, manner, is_ours)),
            Err(error) if error.errno() == rustix::io::Errno::TIMEDOUT => {}
            Err(error) if manner == Manner::Polite && way == Way::Polite => return Err(fail(error)),
            Err(error) if way == Way::Lazy => return Err(fail(error)),
            Err(_) => {}
        }
    }
    Err(Error::UnmountHangs { path: place.to_owned() })
}

/// Mounts of others stay. With force, our client ends nevertheless.
fn covered(record: &Record, place: &Path, manner: Manner, is_ours: &impl Fn() -> bool) -> Error {
    let describe =
        |entry: sys::mountinfo::Entry| format!("{} ({}) at {}", entry.fstype, entry.source.display(), entry.mount_point.display());
    let by = sys::mount::children_of(&record.mount.into()).unwrap_or_default().into_iter().map(describe).collect();
    let client_ended = manner == Manner::Force && record.init.is_some();
    if client_ended {
        let _ = sys::unmount::abort_fuse(&record.mount.into(), is_ours);
        reconcile::end_client(record);
    }
    Error::Covered { path: place.to_owned(), by, client_ended }
}

/// What is not mounted any more is over with its client. Where ids are reused, the mount table is not asked again: it may have another mount
/// under this one's id by now.
fn is_over(records: &Records, record: &Record) -> bool {
    if record.mount.unique {
        return state::of(records, record).is_none();
    }
    let is_alive = |process: Option<Process>| process.is_some_and(|process| process.is_alive());
    !is_alive(if record.init.is_some() { record.init } else { record.keeper })
}

/// After the unmount the client ends by itself, and its keeper removes the record.
fn wait_for_client(records: &Records, record: &Record, manner: Manner, end: Instant) -> Result<(), Error> {
    let patience = if manner == Manner::Force { CLIENT_END_FORCED } else { CLIENT_END };
    let deadline = end.min(Instant::now() + patience);
    let is_gone = || matches!(records.get(&record.id), Ok(None)) || is_over(records, record);
    while !is_gone() {
        if Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        } else if manner == Manner::Force && reconcile::clean_up_unmounted(records, record) {
            return Ok(());
        } else {
            let pid = record.daemon().or(record.init.map(|init| init.pid)).unwrap_or(0);
            return Err(Error::Lingers { path: PathBuf::from(&record.target), pid });
        }
    }
    // The keeper does this too; the cleanup is idempotent, and is complete when we return.
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
    if reconcile::clean_up_unmounted(records, record) { Ok(()) } else { Err(Error::UnmountHangs { path: record.target.clone() }) }
}
