//! A mount takes the place of an earlier one. In: both records, and the new mount. Out: the new one wherever the old one was, in every mount
//! namespace, and the old one's record gone.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use shorefast_sys as sys;
use sys::bounded_call;
use sys::mount::Identity;
use sys::unmount::How;

use crate::error::Error;
use crate::kill_point::{self, Point};
use crate::record::{Record, Replaces};
use crate::records::Records;
use crate::replace::{self, Old, Primary, Replaced};
use crate::{draining, state};

/// For what a killed process has left to do: no server is asked but the new client.
const PATIENCE: Duration = Duration::from_secs(5);

/// Puts `mount` in the places of `old`. The record is changed accordingly, and not written.
pub fn carry_out(
    old: &Replaces,
    record: &mut Record,
    mount: BorrowedFd<'_>,
    deadline: Instant,
    primary: Primary,
) -> Result<Replaced, Error> {
    let places = Old { identity: old.mount.into(), namespace: record.namespace, before: record.mount.unique.then_some(record.mount.id) };
    let replaced = replace::everywhere(&places, mount, deadline, primary, |_| kill_point::pass(Point::PlaceReplaced))?;
    record.replaces = None;
    note(record, &replaced);
    Ok(replaced)
}

/// What the record says about it.
pub fn note(record: &mut Record, replaced: &Replaced) {
    record.degraded = replaced.degraded.iter().map(ToString::to_string).collect();
}

/// Finishes what a killed process had begun: this mount is at its own place already, and perhaps not at the others.
pub fn finish(records: &Records, record: &Record) {
    let Some(replaces) = record.replaces else { return };
    let deadline = Instant::now() + PATIENCE;
    let mut record = record.clone();
    uncover(records, &record, &replaces, deadline);
    let mount = state::in_its_namespace(&record, || open(&record, deadline)).flatten();
    let Some(mount) = mount else { return };
    if carry_out(&replaces, &mut record, std::os::fd::AsFd::as_fd(&mount), deadline, Primary::AsOthers).is_ok() {
        let is_it = |old: &Record| Identity::from(old.mount) == replaces.mount.into() && old.id != record.id;
        let old = records.by_mount(replaces.mount.id, replaces.mount.unique).filter(is_it);
        if let Some(old) = old.filter(|old| old.replaced_by.is_none() && old.init.is_some_and(|init| init.is_alive())) {
            let _ = draining::begin(records, &old, &record.id);
        }
        let _ = records.rewrite(&record);
    }
}

/// The process may have died when the new mount was below the old one: nothing is left to do there but to take that off.
fn uncover(records: &Records, record: &Record, replaces: &Replaces, deadline: Instant) {
    let (old, new) = (Identity::from(replaces.mount), Identity::from(record.mount));
    let is_below = || sys::mount::attachment_of(&old).ok().flatten().is_some_and(|found| found.parent == new.id);
    let _lock = records.by_mount(old.id, old.unique).and_then(|old| records.lock(&old.id, deadline));
    state::in_its_namespace(record, || {
        if is_below() {
            let _ = sys::unmount::unmount(&old, How::Detached, deadline, is_below);
        }
    });
}

/// The mount itself, if it is the topmost at its place. For a thread in its namespace.
pub fn open(record: &Record, deadline: Instant) -> Option<std::os::fd::OwnedFd> {
    let identity = Identity::from(record.mount);
    let place = sys::mount::attachment_of(&identity).ok().flatten()?.place;
    let opened = bounded_call::open(&place, rustix::fs::OFlags::PATH | rustix::fs::OFlags::NOFOLLOW, deadline);
    let opened = opened.or_timed_out(String::new).ok()?;
    let is_it = sys::mount::identify(std::os::fd::AsFd::as_fd(&opened)).is_ok_and(|found| found == identity);
    is_it.then_some(opened)
}
