//! Whether a target has a mount of ours already, and whether it is the one that is asked for.

use std::time::Instant;

use crate::attach::{self, Target};
use crate::difference::Difference;
use crate::error::Error;
use crate::plan::ClientPlan;
use crate::process;
use crate::record::Record;
use crate::records::Records;
use crate::state::{self, Look, State};

/// An error if a live mount of ours is at the target, and what it differs in from the plan.
pub fn refuse(records: &Records, target: &Target, plan: &ClientPlan) -> Result<(), Error> {
    match find(records, target) {
        None => Ok(()),
        Some(record) => Err(Error::Already { path: plan.target.clone(), differs: differences(&record, plan) }),
    }
}

/// The live mount of ours at the plan's target, and in what it differs from the plan: in nothing, if that is empty.
pub fn compare(records: &Records, plan: &ClientPlan) -> Result<Option<(Record, Vec<Difference>)>, Error> {
    let target = attach::open(&plan.target, plan.namespace.as_deref(), Instant::now() + plan.timeout)?;
    Ok(find(records, &target).map(|record| {
        let differences = differences(&record, plan);
        (record, differences)
    }))
}

/// The live mount of ours with this id, if it is where it was mounted and nothing is on it. Reads a record and the kernel's tables.
pub fn in_place(records: &Records, id: &str) -> Option<Record> {
    let record = records.get(id).ok().flatten()?;
    let standing = Look::here(records).at(&record)?;
    let is_in_place = standing.place.as_ref() == Some(&record.target) && standing.elsewhere.is_none() && !standing.covered;
    (is_in_place && is_served(records, &record)).then_some(record)
}

/// The live mount of ours at the target. A dead one does not count: it is removed when the new one is attached.
fn find(records: &Records, target: &Target) -> Option<Record> {
    let mount = target.mount()?;
    let record = records.by_mount(mount.id, mount.unique)?;
    let is_it = shorefast_sys::mount::Identity::from(record.mount) == mount;
    (is_it && is_served(records, &record)).then_some(record)
}

/// A supervisor remounts as soon as it notices the client's death, when the sandbox has not ended yet. A mount that gets a new client by
/// itself counts as served all the time.
fn is_served(records: &Records, record: &Record) -> bool {
    let has_daemon = || record.init.is_none() || record.daemon().is_some_and(|daemon| !process::is_being_killed(daemon));
    match state::of(records, record) {
        Some(State::Serving) => record.heal.is_some() || has_daemon(),
        Some(State::Healing) => true,
        _ => false,
    }
}

/// Empty: it is the same mount.
fn differences(record: &Record, plan: &ClientPlan) -> Vec<Difference> {
    let made_of = record.made_of.as_ref();
    let mut differences = made_of.map_or_else(|| vec![Difference::Unknown], |made_of| made_of.differences(&plan.fingerprint()));
    differences.extend((record.label != plan.recipe.request.label).then_some(Difference::Label));
    differences
}
