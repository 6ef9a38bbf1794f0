//! In: a label. Out: where a volume with this label is mounted although its client has ended. Asks no server anything. Only volumes have labels.

use std::path::PathBuf;

use crate::error::Error;
use crate::list::{self, Listed};
use crate::publish;
use crate::records::Records;
use crate::state::State;

/// `None`: any label.
pub fn of(records: &Records, label: Option<&str>) -> Result<Vec<PathBuf>, Error> {
    let listing = list::all(records)?;
    let is_meant = |own: &str| label.is_none_or(|label| label == own);
    let ours: Vec<_> = listing.mounts.iter().filter(|one| one.record.label.as_deref().is_some_and(is_meant)).collect();
    let is_served = |one: &Listed| one.standing.as_ref().is_some_and(|standing| standing.state == State::Serving);
    let served: Vec<_> = ours.iter().filter(|one| is_served(one)).map(|one| (one.record.mount.major, one.record.mount.minor)).collect();
    let is_over = |one: &Listed| one.record.replaced_by.is_some();
    let originals = ours.iter().filter(|one| !is_served(one) && !is_over(one)).map(|one| one.record.target.clone());
    // A copy outlives the mount that it was made of.
    let is_orphan = |target: &PathBuf| publish::mount_at(target).is_some_and(|mount| !served.contains(&(mount.major, mount.minor)));
    let copies = publish::entries(records).into_iter().filter(|entry| is_meant(&entry.label)).map(|entry| entry.target);
    Ok(originals.chain(copies.filter(is_orphan)).collect())
}
