//! In: records. Out: a host that agrees with them again, after the end of a client or a crash of ours.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use shorefast_image::Store;
use shorefast_sandbox::Cgroup;
use shorefast_sandbox::cleaner::members;
use shorefast_sandbox::cleaner::members::Sandbox;
use shorefast_sys::ring;
use shorefast_sys::unmount::{self, How, Outcome};

use crate::client_end::ClientEnd;
use crate::error::Error;
use crate::journal::{self, About, Event, Level};
use crate::past::{self, Ending, Past};
use crate::process::Process;
use crate::record::{self, Crash, Record};
use crate::records::Records;
use crate::state::{self, Look, State};
use crate::wait_status::WaitStatus;
use crate::{keeper, last_words, recover, services, takeover, target_lock};

/// What a reconciliation did.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Mounts whose launching process was killed: undone.
    pub abandoned: Vec<String>,
    /// Mounts that ended unobserved: cleaned up.
    pub ended: Vec<String>,
    /// Dead mounts that stay: another mount covers them, or they cannot be unmounted.
    pub dead: Vec<String>,
    /// Live mounts whose record was lost: recorded again.
    pub adopted: Vec<String>,
    /// Files in the place of records that could not be read.
    pub set_aside: Vec<PathBuf>,
    /// Mounts of which nothing was left but an empty cgroup: removed.
    pub cgroups: Vec<String>,
}

/// Repairs everything.
pub fn all(records: &Records, images: &Store) -> Result<Report, Error> {
    images.discard_unfinished();
    let mut report = Report { abandoned: abandoned(records)?, ..Report::default() };
    let scan = records.scan()?;
    let look = Look::here(records);
    for record in &scan.records {
        supervise(records, record);
        // Its keeper may be doing the same, or be dead too: the cleanup is idempotent.
        let over = match look.at(record).map(|standing| standing.state) {
            None => true,
            Some(State::Dead) => !record.keep_dead,
            Some(State::Serving | State::Hung | State::Detached | State::Draining | State::Healing | State::Failed) => false,
        };
        if over {
            let list = if clean_up(records, record) { &mut report.ended } else { &mut report.dead };
            list.push(record.id.clone());
        }
    }
    report.set_aside = scan.unreadable.iter().filter_map(|unreadable| records.set_aside(unreadable).ok()).collect();
    report.adopted = recover::lost(records, &scan.records);
    records.remove_strays()?;
    report.cgroups = remove_unused_cgroups(records);
    services::reconcile(records);
    Ok(report)
}

/// Gives a mount whose keeper was killed another one: without, its client's death would be noticed by nobody. What the keeper held is
/// found with the sandbox's first process and with the client.
pub fn supervise(records: &Records, record: &Record) {
    let is_alive = |process: Option<Process>| process.filter(|process| process.is_alive());
    let (Some(init), None) = (is_alive(record.init), is_alive(record.keeper)) else { return };
    if records.is_unfinished(&record.id) {
        return;
    }
    // Another call may be about to do the same.
    let Some(_lock) = records.lock(&record.id, Instant::now()) else { return };
    let Ok(Some(record)) = records.get(&record.id) else { return };
    if is_alive(record.keeper).is_some() {
        return;
    }
    if let Some(keeper) = keeper::start_again(records, &record, init) {
        let _ = records.rewrite(&Record { keeper: Some(keeper), ..record });
    }
}

/// Removes a record of which nothing else is left and that has no keeper: a filesystem that the kernel serves has none, so the next call
/// notices that it was unmounted. Returns whether it removed the record.
pub fn forget_if_over(records: &Records, record: &Record) -> bool {
    // `is_unfinished` first: a record is written before its mount is attached.
    record.init.is_none()
        && !records.is_unfinished(&record.id)
        && state::of(records, record).is_none()
        && clean_up_unmounted(records, record)
}

/// Cleans up after the mount with this identity, if it is ours and its client is dead: its keeper may not have come to it yet, or has given
/// up. Returns whether it did.
pub fn clear_dead(records: &Records, mount: shorefast_sys::mount::Identity) -> bool {
    let is_it = |record: &Record| shorefast_sys::mount::Identity::from(record.mount) == mount;
    let is_over = |record: &Record| match state::of(records, record) {
        Some(State::Dead) => !record.keep_dead,
        Some(State::Failed) => true,
        _ => false,
    };
    let record = records.by_mount(mount.id, mount.unique).filter(is_it);
    record.is_some_and(|record| is_over(&record) && clean_up(records, &record))
}

/// How many records each mount checks: even if only one in so many is stale, stale records do not accumulate.
const LOOKED_AT: usize = 8;

/// The same for a random sample of records: on hosts where `list` is never called, only a bounded fraction of the records is stale.
pub fn sweep(records: &Records) -> Result<(), Error> {
    for id in records.some(LOOKED_AT)? {
        // Before the record is read: a client that mounts again has it written again, with another mount id.
        if records.is_unfinished(&id) {
            continue;
        }
        // A record that cannot be read is left to `reconcile`.
        if let Ok(Some(record)) = records.get(&id) {
            forget_if_over(records, &record);
        }
    }
    Ok(())
}

/// How often mounts in other namespaces are checked: their changes do not wake our poll.
const ELSEWHERE: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 10, tv_nsec: 0 };

/// The body of [`services::WATCH`]: stops services after the last mount that needs them. One process for all of them, as long as there are
/// any.
pub fn watch_for_services(records: &Records) -> Result<(), Error> {
    let Some(_only) = services::only_watcher(records)? else { return Ok(()) };
    let path = "/proc/self/mountinfo";
    let table = std::fs::File::open(path).map_err(|source| Error::Record { path: path.into(), source })?;
    while services::are_running(records)? {
        let changes = rustix::event::PollFlags::PRI | rustix::event::PollFlags::ERR;
        let _ = rustix::event::poll(&mut [rustix::event::PollFd::new(&table, changes)], Some(&ELSEWHERE));
        // Also the minimum interval between two checks, however often the table changes.
        std::thread::sleep(services::LINGER);
        for record in records.all()?.iter().filter(|record| record.uses_services) {
            forget_if_over(records, record);
        }
        services::reconcile(records);
    }
    Ok(())
}

/// Undoes what killed processes left half made. Cheap: reads no records of healthy mounts. A file that cannot be read is not an error: the
/// caller's mount does not depend on it.
pub fn abandoned(records: &Records) -> Result<Vec<String>, Error> {
    let mut undone = Vec::new();
    target_lock::remove_stale(records.directory());
    for id in records.abandoned()? {
        let record = records.get(&id).ok().flatten();
        if let Some(record) = record.as_ref().filter(|record| state::of(records, record) == Some(State::Serving)) {
            // Killed after its work was done. If its client is about to end as well, the keeper cleans up.
            takeover::finish(records, record);
            records.adopt(&id);
        } else {
            undo(records, &id, record.as_ref());
            undone.push(id);
        }
    }
    Ok(undone)
}

/// Ends and removes everything that belongs to a mount that was never completed.
fn undo(records: &Records, id: &str, record: Option<&Record>) {
    if let (Some(ids), Some(maker)) = (record::ids_of(id), records.maker(id)) {
        members::end_all(&Sandbox { ids, since: maker.started, mounts: record.and_then(|record| record.sandbox) });
    }
    match record {
        Some(record) => _ = clean_up(records, record),
        None => {
            remove_cgroup(&Cgroup::find(id));
            if let Some(story) = records.abandoned_story(id) {
                past::keep(records.directory(), story);
            }
            records.remove(id);
        }
    }
}

/// A keeper's last step: its sandbox has ended, or its launching process died. Ids are never reused, so a record with this id is of this
/// mount.
pub fn ended(records: &Records, id: &str) -> Result<(), Error> {
    target_lock::remove_stale(records.directory());
    match records.get(id).ok().flatten().or_else(|| recover::from_own_log(id)) {
        // No record: the launching process is dead or dying, whatever /proc still shows.
        None if services::is_one(records, id) => return services::ended(records, id),
        None => undo(records, id, None),
        Some(record) if record.keep_dead && state::is_dead(records, &record) => note_death(records, &record),
        Some(record) => _ = clean_up(records, &record),
    }
    Ok(())
}

/// Its client has died, and the mount stays: `inspect` says why it is dead.
fn note_death(records: &Records, record: &Record) {
    let end = end_of_client(records, record);
    remove_cgroup(&record.cgroup);
    let log = ring::Log::read(&records.log(&record.id)).unwrap_or_default();
    let crash = Crash::now(record, end, last_words::of_crash(&log, &record.target));
    if records.rewrite(&record.with_crash(crash)).is_ok() {
        let about = About { id: Some(&record.id), target: &record.target, client: &record.client };
        journal::tell(Level::Error, Event::Died, about, &format!("its client died, and the mount stays dead: {end}"));
    }
}

/// How its client has ended, by what is left of it. `None` in it: nobody saw how.
pub fn end_of_client(records: &Records, record: &Record) -> ClientEnd {
    let status = ring::ended(&records.log(&record.id)).ok().flatten().map(WaitStatus);
    let noted = || record.crashes.last().filter(|crash| crash.end.status == status).and_then(|crash| crash.end.out_of_memory);
    ClientEnd::new(status, record.cgroup.ran_out_of_memory().or_else(noted))
}

/// Ends and removes all that belongs to a mount. Continues after errors. False: the client or the mount still exists, and so does the
/// record, for the next attempt.
pub fn clean_up(records: &Records, record: &Record) -> bool {
    let how = how(record, records.is_unfinished(&record.id), state::of(records, record), end_of_client(records, record));
    clean_up_as(records, record, how)
}

fn clean_up_as(records: &Records, record: &Record, how: (Ending, Option<ClientEnd>)) -> bool {
    clean_up_with(records, record, how, || {
        let _lock = records.lock(&record.id, Instant::now() + DETACH_WITHIN);
        detach(records, record)
    })
}

/// Why it is being cleaned up. The client's end is part of that if it was not as it should be, or nobody else's doing.
fn how(record: &Record, is_unfinished: bool, standing: Option<State>, end: ClientEnd) -> (Ending, Option<ClientEnd>) {
    let is_well = end.is_well(&record.ends_with);
    match standing {
        _ if !record.is_of_this_boot() => (Ending::Restarted, None),
        _ if is_unfinished => (Ending::Abandoned, None),
        // What was still open on it is closed, or lost with its client.
        _ if record.replaced_by.is_some() => (Ending::Replaced, (end.status.is_some() && !is_well).then_some(end)),
        // We end it.
        Some(State::Serving | State::Hung | State::Detached | State::Draining) => (Ending::Unmounted, None),
        Some(State::Dead | State::Healing | State::Failed) if is_well => (Ending::Ended, None),
        Some(State::Dead | State::Healing | State::Failed) => (Ending::Died, Some(end)),
        None => (Ending::Unmounted, (end.status.is_some() && !is_well).then_some(end)),
    }
}

/// The same for a mount that is known to be unmounted. What the mount table has under its id by now would be another mount.
pub fn clean_up_unmounted(records: &Records, record: &Record) -> bool {
    if record.mount.unique {
        return clean_up(records, record);
    }
    let how = how(record, records.is_unfinished(&record.id), None, end_of_client(records, record));
    clean_up_with(records, record, how, || true)
}

/// The same for a mount that another one has taken the place of, and whose client has ended before. Where it had to stay, below the new one,
/// it goes with that.
pub fn clean_up_replaced(records: &Records, record: &Record) -> Covered {
    let replaced = Record { heal: None, keep_dead: false, init: None, ..record.clone() };
    let end = Some(end_of_client(records, record)).filter(|end| !end.is_well(&record.ends_with));
    if clean_up_as(records, &replaced, (Ending::Replaced, end)) {
        return Covered::No;
    }
    let _ = records.rewrite(&Record { init: record.init, ..replaced });
    Covered::Yes
}

/// Whether a mount that was replaced is still there, below the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covered {
    Yes,
    No,
}

fn clean_up_with(records: &Records, record: &Record, (how, end): (Ending, Option<ClientEnd>), detach: impl FnOnce() -> bool) -> bool {
    if record.is_of_this_boot() {
        retire(records, record);
        let has_ended = end_client(record);
        let is_detached = detach();
        // Also where the mount has to stay: nobody but its record knows of the groups.
        if has_ended {
            remove_cgroup(&record.cgroup);
        }
        if !is_detached || !has_ended {
            return false;
        }
    }
    past::keep(records.directory(), Past::of(record, how, end));
    records.remove(&record.id);
    if record.uses_services {
        services::settle(records);
    }
    if let Some(covered) = record.covers.as_ref().and_then(|id| records.get(id).ok().flatten()) {
        clean_up(records, &covered);
    }
    true
}

/// Its client ends because we end it: no new one is to be started.
pub fn retire(records: &Records, record: &Record) {
    if record.heal.is_some() && record.init.is_some_and(|init| init.is_alive()) {
        let _ = records.rewrite(&Record { heal: None, keep_dead: false, ..record.clone() });
    }
}

/// Ends the client and all its processes. Returns whether none is left.
pub fn end_client(record: &Record) -> bool {
    let Some((ids, init)) = record::ids_of(&record.id).zip(record.init) else { return true };
    let sandbox = Sandbox { ids, since: init.started, mounts: record.sandbox };
    let end_processes = || !record.host_processes || members::end_all(&sandbox);
    let mut none_is_left = end_processes();
    // Killing pid 1 of a pid namespace kills all processes in it.
    init.end(Instant::now() + CLIENT_END);
    if !none_is_left || init.remains() {
        // One of them may wait for the client itself, which is dead: the keeper holds the connection open, so nobody tells it.
        let own = rustix::process::getpid().as_raw_nonzero().get();
        record.keeper.filter(|keeper| keeper.pid != own).map(|keeper| keeper.end(Instant::now() + CLIENT_END));
        none_is_left = end_processes();
    }
    // Its exit waits for all others, and one of them may be stuck and have to be freed.
    let first = rustix::process::Pid::from_raw(init.pid).filter(|_| init.remains());
    none_is_left && first.is_none_or(members::end_namespace)
}

/// Time for a kill and the kernel's work after it. Processes that still exist then have to be freed.
const CLIENT_END: Duration = Duration::from_millis(200);
/// The path to a mount may lead through other mounts.
const DETACH_WITHIN: Duration = Duration::from_secs(2);

/// Detaches exactly this mount, wherever it is now; never other mounts at that place. True: it is gone.
fn detach(records: &Records, record: &Record) -> bool {
    let mount = record.mount.into();
    let is_ours = state::ownership(records, record);
    let unmount = |how| unmount::unmount(&mount, how, Instant::now() + DETACH_WITHIN, &is_ours);
    let detached = state::in_its_namespace(record, || match unmount(How::IfUnused) {
        Ok(outcome) => outcome != Outcome::Covered,
        Err(_) => unmount(How::Detached).is_ok_and(|outcome| outcome != Outcome::Covered),
    });
    // `None`: its namespace is gone, and the mount with it.
    detached.unwrap_or(true)
}

/// A mount that is being made has an empty cgroup for a moment: a fraction of a second unless its launching process is stopped.
const UNUSED_FOR: Duration = Duration::from_secs(10);

/// Removes the cgroups of mounts that were killed while they began, and whose files are lost: nothing else names them. Also those of other
/// run directories, which cannot be known here: they are empty, and a mount that needs one after all makes it again (`Cgroup::admit`).
fn remove_unused_cgroups(records: &Records) -> Vec<String> {
    let is_lost = |id: &str| {
        let nobody = record::ids_of(id).is_some_and(|ids| !members::is_anybody(ids));
        nobody && !records.is_unfinished(id) && matches!(records.get(id), Ok(None))
    };
    Cgroup::unused_for(UNUSED_FOR).into_iter().filter(|(id, cgroup)| is_lost(id) && cgroup.remove()).map(|(id, _)| id).collect()
}

/// A cgroup can be removed only after its last process is gone, which takes a moment.
pub fn remove_cgroup(cgroup: &Cgroup) {
    let deadline = Instant::now() + Duration::from_secs(2);
    while !cgroup.remove() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(boot: &str) -> Record {
        let json = serde_json::json!({
            "id": "m0001-1", "target": "/srv/x", "source": "none", "fstype": "fuse", "client": "x", "image": "", "mode": "image", "since": 0,
            "mount": {"id": 1, "unique": true, "major": 0, "minor": 1}, "namespace": 1, "init": null, "keeper": null,
            "host_processes": false, "cgroup": [], "keep_dead": false, "boot": boot, "ends_with": [3],
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn an_end_is_told_by_what_stood_when_it_was_found() {
        let end = |status: Option<i32>| ClientEnd { status: status.map(WaitStatus), out_of_memory: None };
        let (dead, failed, serving) = (Some(State::Dead), Some(State::Failed), Some(State::Serving));
        let rows = [
            (None, end(Some(0)), Ending::Unmounted, None),
            (None, end(Some(0x300)), Ending::Unmounted, None),
            (None, end(Some(0x500)), Ending::Unmounted, Some(end(Some(0x500)))),
            // Killed by who unmounted it, or served by the kernel.
            (None, end(None), Ending::Unmounted, None),
            (serving, end(None), Ending::Unmounted, None),
            (dead, end(Some(0)), Ending::Ended, None),
            (dead, end(Some(0x300)), Ending::Ended, None),
            (dead, end(Some(9)), Ending::Died, Some(end(Some(9)))),
            (failed, end(None), Ending::Died, Some(end(None))),
        ];
        for (standing, end, ending, told) in rows {
            assert_eq!(how(&record(""), false, standing, end), (ending, told), "{standing:?} {end}");
        }
        assert_eq!(how(&record(""), true, dead, end(Some(9))), (Ending::Abandoned, None));
        assert_eq!(how(&record("another"), false, dead, end(None)), (Ending::Restarted, None));
    }
}
