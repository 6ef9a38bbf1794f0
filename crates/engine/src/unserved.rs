//! In: a label. Out: where a volume with this label is mounted and is not served as it should be. Asks no server anything. Only volumes have labels.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::list::{self, Listed};
use crate::publish;
use crate::record::MountId;
use crate::records::Records;
use crate::state::State;
use crate::{hang, text};

/// A place, and what its users have there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unserved {
    #[serde(with = "text")]
    pub place: PathBuf,
    pub trouble: Trouble,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// Its client has ended: errors.
    Ended,
    /// Its client has ended, and starting another one was given up: errors.
    Failed,
    /// Its client lives and answers nothing: its users wait.
    Hung,
    /// A new client is being started: its users wait.
    Healing,
    /// A new client has taken over, but not everywhere: some users still have the old one's mount.
    Degraded,
}

/// `None`: any label.
pub fn of(records: &Records, label: Option<&str>) -> Result<Vec<Unserved>, Error> {
    let mut listing = list::all(records)?;
    let is_meant = |own: &str| label.is_none_or(|label| label == own);
    // Those of others are not looked at for long.
    listing.mounts.retain(|one| one.record.label.as_deref().is_some_and(is_meant));
    hang::mark(&mut listing.mounts);
    let known: Vec<_> = listing.mounts.iter().map(|one| (one.record.mount, trouble(one))).collect();
    let is_over = |one: &Listed| one.record.replaced_by.is_some();
    let originals = listing.mounts.iter().filter(|one| !is_over(one));
    let originals = originals.filter_map(|one| Some(Unserved { place: one.record.target.clone(), trouble: trouble(one)? }));
    let copies = publish::entries(records).into_iter().filter(|entry| is_meant(&entry.label)).map(|entry| entry.target);
    let copies = copies.filter_map(|place| {
        let mount = publish::mount_at(&place)?;
        Some(Unserved { trouble: of_copy(&known, mount.into())?, place })
    });
    Ok(originals.chain(copies).collect())
}

fn trouble(one: &Listed) -> Option<Trouble> {
    match one.standing.as_ref().map(|standing| standing.state) {
        Some(State::Serving) if one.record.degraded.is_empty() => None,
        Some(State::Serving) => Some(Trouble::Degraded),
        Some(State::Hung) => Some(Trouble::Hung),
        Some(State::Healing) => Some(Trouble::Healing),
        Some(State::Failed) => Some(Trouble::Failed),
        Some(State::Dead | State::Detached | State::Draining) | None => Some(Trouble::Ended),
    }
}

/// A copy is of the same filesystem as the mount that it was made of. It outlives that: then nobody serves it.
fn of_copy(known: &[(MountId, Option<Trouble>)], copy: MountId) -> Option<Trouble> {
    let is_its = |mount: &MountId| (mount.major, mount.minor) == (copy.major, copy.minor);
    match known.iter().find(|(mount, _)| is_its(mount)) {
        // Its own place has the new client.
        Some((_, Some(Trouble::Degraded) | None)) => None,
        Some((_, trouble)) => *trouble,
        None => Some(Trouble::Ended),
    }
}
