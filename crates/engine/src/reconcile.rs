//! Making the world agree with the kernel again: after a client's end, after a crash of ours.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use shorefast_image::Store;
use shorefast_sandbox::members::Sandbox;
use shorefast_sandbox::{Cgroup, members};
use shorefast_sys::unmount::{self, How, Outcome};

use crate::error::Error;
use crate::record::{self, Record};
use crate::records::Records;
use crate::state::{self, Look, State};
use crate::{recover, services, target_lock};

/// What a reconciliation did.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Mounts whose maker was killed: undone.
    pub abandoned: Vec<String>,
    /// Mounts that ended while nobody watched: cleaned up.
    pub ended: Vec<String>,
    /// Dead mounts that stay: somebody else's mount is on them, or they cannot be unmounted.
    pub dead: Vec<String>,
    /// Live mounts whose record was lost: on record again.
    pub adopted: Vec<String>,
    /// Files that should be records, and could not be read.
    pub set_aside: Vec<PathBuf>,
}

/// Repairs everything.
pub fn all(records: &Records, images: &Store) -> Result<Report, Error> {
    images.discard_unfinished();
    let mut report = Report { abandoned: abandoned(records)?, ..Report::default() };
    let scan = records.scan()?;
    let look = Look::here();
    for record in &scan.records {
        // Its keeper may be at it, or dead too: doing this twice does no harm.
        let over = match look.at(record).map(|standing| standing.state) {
            None => true,
            Some(State::Dead) => !record.keep_dead,
            Some(State::Serving | State::Detached) => false,
        };
        if over {
            let list = if clean_up(records, record) { &mut report.ended } else { &mut report.dead };
            list.push(record.id.clone());
        }
    }
    report.set_aside = scan.unreadable.iter().filter_map(|unreadable| records.set_aside(unreadable).ok()).collect();
    report.adopted = recover::lost(records, &scan.records);
    records.remove_strays()?;
    services::reconcile(records);
    Ok(report)
}

/// Removes a record of which nothing else is left, if nobody else will: a filesystem that the kernel serves has no keeper, so whoever
/// comes next sees that it was unmounted. Says whether it did.
pub fn forget_if_over(records: &Records, record: &Record) -> bool {
    // First whether it is complete: a record is written before its mount can be seen.
    record.init.is_none() && !records.is_unfinished(&record.id) && state::of(record).is_none() && clean_up(records, record)
}

/// Cleans up after the mount with this identity, if it is ours and its client is dead: its keeper may be about to. Says whether it did.
pub fn clear_dead(records: &Records, mount: shorefast_sys::mount::Identity) -> bool {
    let is_it = |record: &Record| shorefast_sys::mount::Identity::from(record.mount) == mount && !record.keep_dead;
    let record = records.by_mount(mount.id, mount.unique).filter(is_it);
    record.is_some_and(|record| state::of(&record) == Some(State::Dead) && clean_up(records, &record))
}

/// How many records a mount looks at: if one in so many is over, no more come than go.
const LOOKED_AT: usize = 8;

/// The same for some of the records, others each time: where nobody ever lists mounts, no more than a fraction of them is over.
pub fn sweep(records: &Records) -> Result<(), Error> {
    for id in records.some(LOOKED_AT)? {
        // One that cannot be read is not for us to judge.
        if let Ok(Some(record)) = records.get(&id) {
            forget_if_over(records, &record);
        }
    }
    Ok(())
}

/// How often mounts in other namespaces are looked at, whose changes nobody reports here.
const ELSEWHERE: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 10, tv_nsec: 0 };

/// The body of [`services::WATCH`]: ends what runs beside mounts after the last mount that needs it. One process for all of them, as
/// long as there are any.
pub fn watch_for_services(records: &Records) -> Result<(), Error> {
    let Some(_only) = services::only_watcher(records)? else { return Ok(()) };
    let path = "/proc/self/mountinfo";
    let table = std::fs::File::open(path).map_err(|source| Error::Record { path: path.into(), source })?;
    while services::are_running(records)? {
        let changes = rustix::event::PollFlags::PRI | rustix::event::PollFlags::ERR;
        let _ = rustix::event::poll(&mut [rustix::event::PollFd::new(&table, changes)], Some(&ELSEWHERE));
        // Also the least time between two looks, however often the table changes.
        std::thread::sleep(services::LINGER);
        for record in records.all()?.iter().filter(|record| record.uses_services) {
            forget_if_over(records, record);
        }
        services::reconcile(records);
    }
    Ok(())
}

/// Undoes what killed processes left half-made. Cheap: reads nothing of the mounts that are well. What cannot be read is no reason to fail:
/// somebody else's mount comes next.
pub fn abandoned(records: &Records) -> Result<Vec<String>, Error> {
    let mut undone = Vec::new();
    target_lock::remove_stale(records.directory());
    for id in records.abandoned()? {
        let record = records.get(&id).ok().flatten();
        if record.as_ref().is_some_and(|record| state::of(record) == Some(State::Serving)) {
            // Killed after its work was done. Should its client be about to end as well, the
            // keeper sees to that.
            records.adopt(&id);
        } else {
            undo(records, &id, record.as_ref());
            undone.push(id);
        }
    }
    Ok(undone)
}

/// Ends and removes whatever there is of a mount that was never completed.
fn undo(records: &Records, id: &str, record: Option<&Record>) {
    if let (Some(ids), Some(maker)) = (record::ids_of(id), records.maker(id)) {
        members::end_all(&Sandbox { ids, since: maker.started, mounts: record.and_then(|record| record.sandbox) });
    }
    match record {
        Some(record) => _ = clean_up(records, record),
        None => {
            remove_cgroup(&Cgroup::find(id));
            records.remove(id);
        }
    }
}

/// A keeper's last act: its mount has ended, or its maker died. An id is never used again, so a record with this id is of this mount.
pub fn ended(records: &Records, id: &str) -> Result<(), Error> {
    target_lock::remove_stale(records.directory());
    match records.get(id).ok().flatten().or_else(|| recover::from_own_log(id)) {
        // No record: the maker is dead or about to be, whatever /proc still says.
        None if services::is_one(records, id) => return services::ended(records, id),
        None => undo(records, id, None),
        Some(record) if record.keep_dead && state::of(&record) == Some(State::Dead) => remove_cgroup(&record.cgroup),
        Some(record) => _ = clean_up(records, &record),
    }
    Ok(())
}

/// Ends and removes all that belongs to a mount. Goes on whatever fails: each thing is tried. False: the client or the mount is still
/// there, and so is the record, for the next to try.
pub fn clean_up(records: &Records, record: &Record) -> bool {
    if record.is_of_this_boot() {
        let has_ended = end_client(record);
        let _lock = records.lock(&record.id, Instant::now() + DETACH_WITHIN);
        let is_detached = detach(record);
        // Also where the mount has to stay: nobody but its record knows of the groups.
        if has_ended {
            remove_cgroup(&record.cgroup);
        }
        if !is_detached || !has_ended {
            return false;
        }
    }
    records.remove(&record.id);
    if record.uses_services {
        services::settle(records);
    }
    true
}

/// Ends the client and all that it started. Says whether none of it is left.
pub fn end_client(record: &Record) -> bool {
    let Some((ids, init)) = record::ids_of(&record.id).zip(record.init) else { return true };
    let sandbox = Sandbox { ids, since: init.started, mounts: record.sandbox };
    let none_is_left = !record.host_processes || members::end_all(&sandbox);
    // With the first process of a pid namespace goes all that is in it.
    init.end(Instant::now() + CLIENT_END);
    // It waits for all others, and one of them may have to be freed.
    let first = rustix::process::Pid::from_raw(init.pid).filter(|_| init.remains());
    none_is_left && first.is_none_or(members::end_namespace)
}

/// What a kill takes, and the kernel's work after it. Whoever is not gone by then has to be freed.
const CLIENT_END: Duration = Duration::from_millis(200);
/// A path to a mount may lead through others.
const DETACH_WITHIN: Duration = Duration::from_secs(2);

/// Takes exactly this mount away, wherever it is now; never what others have put there. True: it is gone.
fn detach(record: &Record) -> bool {
    let mount = record.mount.into();
    let unmount = |how| unmount::unmount(&mount, how, Instant::now() + DETACH_WITHIN);
    let detached = state::in_its_namespace(record, || match unmount(How::IfUnused) {
        Ok(outcome) => outcome != Outcome::Covered,
        Err(_) => unmount(How::Detached).is_ok_and(|outcome| outcome != Outcome::Covered),
    });
    // With its namespace goes the mount.
    detached.unwrap_or(true)
}

/// Groups can be removed only after their last process is gone, which takes a moment.
pub fn remove_cgroup(cgroup: &Cgroup) {
    let deadline = Instant::now() + Duration::from_secs(2);
    while !cgroup.remove() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}
