//! Making the world agree with the kernel again: after a client's end, after a crash of ours.

use std::time::{Duration, Instant};

use shorefast_image::Store;
use shorefast_sandbox::{Cgroup, members};

use crate::error::Error;
use crate::record::{self, Record, Records};
use crate::services;
use crate::state::{self, State};

/// What a reconciliation did.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Mounts whose maker was killed: undone.
    pub abandoned: Vec<String>,
    /// Mounts that ended while nobody watched: cleaned up.
    pub ended: Vec<String>,
}

/// Repairs everything.
pub fn all(records: &Records, images: &Store) -> Result<Report, Error> {
    images.discard_unfinished();
    let mut report = Report { abandoned: abandoned(records)?, ..Report::default() };
    for record in records.all()? {
        // Its keeper may be at it, or dead too: doing this twice does no harm.
        let over = match state::of(&record) {
            None => true,
            Some(State::Dead) => !record.keep_dead,
            Some(State::Serving | State::Detached) => false,
        };
        if over {
            clean_up(records, &record);
            report.ended.push(record.id);
        }
    }
    services::reconcile(records);
    Ok(report)
}

/// Undoes what killed processes left half-made. Cheap: reads nothing of the mounts that are well.
pub fn abandoned(records: &Records) -> Result<Vec<String>, Error> {
    let mut undone = Vec::new();
    for id in records.abandoned()? {
        let record = records.get(&id)?;
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
        members::end_all(ids, maker.started);
    }
    match record {
        Some(record) => clean_up(records, record),
        None => {
            remove_cgroup(&Cgroup::find(id));
            records.remove(id);
        }
    }
}

/// A keeper's last act: its mount has ended, or its maker died.
pub fn ended(records: &Records, id: &str) -> Result<(), Error> {
    match records.get(id)? {
        // No record: the maker is dead or about to be, whatever /proc still says.
        None if services::is_one(records, id) => return services::ended(records, id),
        None => undo(records, id, None),
        Some(record) if record.keep_dead && state::of(&record) == Some(State::Dead) => {}
        Some(record) => clean_up(records, &record),
    }
    Ok(())
}

/// Ends and removes all that belongs to a mount. Goes on whatever fails: each thing is tried.
pub fn clean_up(records: &Records, record: &Record) {
    if let (Some(ids), Some(init)) = (record::ids_of(&record.id), record.init)
        && (record.host_processes || init.is_alive())
    {
        members::end_all(ids, init.started);
        // In a container its user is the container's; with it goes all that is below it.
        init.end();
    }
    // Exactly this mount, wherever it is now; never what others have put there.
    let _ = state::in_its_namespace(record, || shorefast_sys::mount::detach(&record.mount.into()));
    remove_cgroup(&record.cgroup);
    records.remove(&record.id);
    if record.uses_services {
        services::release(records);
    }
}

/// Groups can be removed only after their last process is gone, which takes a moment.
pub fn remove_cgroup(cgroup: &Cgroup) {
    let deadline = Instant::now() + Duration::from_secs(2);
    while !cgroup.remove() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}
