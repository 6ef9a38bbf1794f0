//! A live mount gets a new client, made of what its definition says and its image is today. In: a target. Out: a client that has taken the
//! places of the old one, which goes on with what is open on it; or an error, and nothing has changed.
//!
//! The two serve side by side until the new one has shown the same as the old one. Then its mount is put in every place of the old one, as
//! after a crash ([`crate::heal`]); but nobody has waited, and whoever has something open keeps it ([`crate::draining`]).

mod changes;
mod locks;
mod shown;

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use shorefast_sandbox::spec::{Content, Secret};
use shorefast_sys as sys;
use sys::bounded_call;

pub use changes::{Changes, ImageChange};
use shown::Shown;

use crate::configuration::Configuration;
use crate::error::{Error, Obstacle};
use crate::kill_point::{self, Point};
use crate::list::{self, Listed};
use crate::plan::{self, ClientPlan, Root};
use crate::recipe::Recipe;
use crate::record::{Record, Replaces};
use crate::records::Records;
use crate::replace::Primary;
use crate::state::{self, Look, Standing, State};
use crate::{Host, client_root, draining, find, reconcile, successor, takeover, target_lock};

/// What would be done.
#[derive(Debug)]
pub struct Prospect {
    pub record: Record,
    /// Empty: nothing.
    pub changes: Changes,
    plan: ClientPlan,
}

/// Whether an image that is not in the store is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    Now,
    Never,
}

/// What was done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Upgraded {
    /// As the mount is now.
    pub record: Box<Record>,
    /// As it was. `None`: nothing was to be done.
    pub before: Option<Box<Record>>,
    pub changes: Changes,
    pub milliseconds: u64,
    /// The old client, if it goes on with what is open on it.
    pub draining: Option<i32>,
    /// Who got a lock from the old client at the last moment. The new one does not know it.
    pub locks: Vec<String>,
}

/// Mounts that have a client, of one definition or of any.
pub fn candidates(records: &Records, client: Option<&str>) -> Result<Vec<Record>, Error> {
    let is_meant = |record: &Record| record.init.is_some() && client.is_none_or(|client| record.client == client);
    let is_at_a_place = |standing: &Option<Standing>| {
        standing.as_ref().is_some_and(|standing| !matches!(standing.state, State::Detached | State::Draining))
    };
    let all = list::all(records)?.mounts.into_iter().filter(|Listed { record, standing }| is_meant(record) && is_at_a_place(standing));
    Ok(all.map(|listed| listed.record).collect())
}

/// What the client of the mount at this place, or with this id, would be made of today.
pub fn prospect(
    records: &Records,
    host: &Host,
    configuration: &Configuration,
    target: &std::path::Path,
    fetch: Fetch,
) -> Result<Prospect, Error> {
    let record = find_live(records, target)?;
    let recipe = record.keeper.as_ref().and_then(Recipe::of_keeper).ok_or(Error::NoRecipe)?;
    let mut plan = plan::anew(&recipe, configuration)?;
    let before = record.digest.map_or_else(|| record.image.clone(), |digest| digest.to_string());
    let named = || plan.root.to_string();
    let today = match (fetch, &plan.root) {
        (Fetch::Now, _) => client_root::todays_image(&plan, host)?,
        (Fetch::Never, Root::Image(image)) => match client_root::stored(image, &plan, host)? {
            Some(image) => image.digest,
            // Fetched, it may prove to be the same.
            None => {
                let changes = Changes::between(&recipe, before, &plan, named());
                return Ok(Prospect { record, changes, plan });
            }
        },
        (Fetch::Never, Root::Container(_)) => None,
    };
    let changes = Changes::between(&recipe, before, &plan, today.map_or_else(named, |digest| digest.to_string()));
    plan.recipe.digest = today;
    let is_exclusive = plan.exclusive || recipe.definition.exclusive == Some(true);
    if !changes.is_empty() && is_exclusive {
        return Err(cannot(&record, Obstacle::Exclusive { client: plan.client.clone() }));
    }
    require_secrets(&plan).map_err(|why| cannot(&record, why))?;
    Ok(Prospect { record, changes, plan })
}

fn cannot(record: &Record, why: Obstacle) -> Error {
    Error::CannotReplace { path: record.target.clone(), why }
}

/// A mount of ours that is at its place and served.
fn find_live(records: &Records, target: &std::path::Path) -> Result<Record, Error> {
    let found = find::find(records, target)?;
    if let Some(maker) = records.maker(&found.id).filter(|maker| maker.is_alive()) {
        return Err(Error::Underway { path: found.target, pid: maker.pid });
    }
    // The keeper has the recipe.
    reconcile::supervise(records, &found);
    let record = records.get(&found.id)?.unwrap_or(found);
    let standing = Look::here(records).at(&record);
    let why = match standing.map(|standing| standing.state) {
        Some(State::Serving) if record.init.is_none() => Obstacle::NoClient,
        Some(State::Serving) => return Ok(record),
        Some(State::Healing) => Obstacle::Healing,
        Some(State::Dead | State::Failed) => Obstacle::Dead,
        Some(State::Hung) => Obstacle::Silent { within: shown::PATIENCE },
        Some(State::Draining) => Obstacle::Drains,
        Some(State::Detached) | None => Obstacle::Unmounted,
    };
    Err(cannot(&record, why))
}

/// What came through a pipe cannot be read again: it has to be in the recipe.
fn require_secrets(plan: &ClientPlan) -> Result<(), Obstacle> {
    let is_a_pipe = |path: &std::path::Path| path.starts_with("/proc") || path.starts_with("/dev");
    let mut files = plan.spec.files.iter();
    let lost = files.find(|file| matches!(&file.content, Content::Secret { secret: Secret::Host(path), .. } if is_a_pipe(path)));
    lost.map_or(Ok(()), |file| Err(Obstacle::SecretGone { inside: file.inside.display().to_string() }))
}

/// To put the new mount in all places, once the new client serves.
const SWAP: Duration = Duration::from_secs(10);
/// For another process that mounts there, or unmounts.
const OTHERS: Duration = Duration::from_secs(2);
/// Until what was written to the old client has reached its server.
const WRITE_BACK: Duration = Duration::from_secs(30);
/// A client on which nothing is open ends at once.
const TO_END: Duration = Duration::from_millis(200);

/// `wait`: until nobody has locks any more.
pub fn carry_out(
    records: &Records,
    host: &Host,
    configuration: &Configuration,
    target: &std::path::Path,
    wait: Duration,
) -> Result<Upgraded, Error> {
    kill_point::read(records.directory());
    let since = Instant::now();
    // Of an upgrade that was killed, perhaps of this mount.
    reconcile::abandoned(records)?;
    let found = find_live(records, target)?;
    // The image may take minutes to arrive, and nothing else has to wait for that.
    prospect(records, host, configuration, target, Fetch::Now)?;
    let only = target_lock::take(&host.run_dir, found.namespace, &found.target, Instant::now() + OTHERS);
    let _only = only.map_err(|error| match error {
        Error::Underway { pid, .. } => cannot(&found, Obstacle::InHand { pid }),
        error => error,
    })?;
    let Prospect { record: old, changes, plan } = prospect(records, host, configuration, target, Fetch::Now)?;
    let done = |record: Record, before: Option<Record>, changes: Changes| Upgraded {
        record: Box::new(record),
        before: before.map(Box::new),
        changes,
        milliseconds: u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX),
        draining: None,
        locks: Vec::new(),
    };
    if changes.is_empty() {
        return Ok(done(old, None, changes));
    }
    let patience = Instant::now() + wait;
    locks::wait_until_none(&old, patience)?;
    let client = old.daemon();
    let record = replace(records, host, &old, &plan, patience)?;
    let upgraded = done(record, Some(old.clone()), changes);
    let until = Instant::now() + TO_END;
    let is_alive = || old.init.is_some_and(|init| init.is_alive());
    while is_alive() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    let draining = client.filter(|_| is_alive());
    // The device number is the old one's as long as its client lives.
    let locks = if draining.is_some() { locks::of(&old) } else { Vec::new() };
    Ok(Upgraded { draining, locks, ..upgraded })
}

fn replace(records: &Records, host: &Host, old: &Record, plan: &ClientPlan, patience: Instant) -> Result<Record, Error> {
    let silent = || cannot(old, Obstacle::Silent { within: shown::PATIENCE });
    let shown = opened(old).and_then(|opened| Shown::by(opened.as_fd()).ok()).ok_or_else(silent)?;
    kill_point::pass(Point::UpgradePlanned);
    let serving = successor::start(records, old, plan, host)?;
    kill_point::pass(Point::SuccessorServes);
    {
        // Held no longer than this: whoever closes the last descriptor of a filesystem waits for its client.
        let before = opened(old);
        let before = before.as_ref().map(|opened| opened.as_fd());
        if let Some(what) = shown::difference(&shown, before, serving.mounted.mount.as_fd()) {
            return Err(cannot(old, Obstacle::Differs { what }));
        }
        kill_point::pass(Point::Compared);
        before.map_or(Ok(()), |before| write_back(old, before)).map_err(|why| cannot(old, why))?;
        kill_point::pass(Point::WrittenBack);
    }
    let mut released = serving.release(plan)?;
    // Others may unmount it: not in the middle.
    let lock = records.lock(&old.id, Instant::now() + OTHERS);
    // Also if its client has just died: the new one is ready. Whoever waits for the old one is answered by its keeper.
    if !matches!(state::of(records, old), Some(State::Serving | State::Healing | State::Failed | State::Dead)) {
        return Err(cannot(old, Obstacle::Unmounted));
    }
    if old.init.is_some_and(|init| init.is_alive()) {
        locks::wait_until_none(old, patience)?;
    }
    let Some(replaces) = Replaces::of(old) else { return Err(Error::NoRecipe) };
    let deadline = Instant::now() + SWAP;
    let mut replaced = takeover::carry_out(&replaces, &mut released.record, released.mounted.mount.as_fd(), deadline, Primary::Required)?;
    if replaced.primary.is_none() {
        let why = replaced.degraded.first().map(|degraded| degraded.why.clone());
        let why = why.map_or(Obstacle::Unmounted, |why| Obstacle::NotReplaceable { why });
        // Below the old one, from where nobody can take it: it has to be known.
        if state::of(records, &released.record) == Some(State::Serving) {
            let stuck = released.attached();
            stuck.commit()?;
            stuck.finish();
        }
        return Err(cannot(old, why));
    }
    let mut successor = released.attached();
    // Before the new record says that all is done: whoever finishes that for us does this, too. Without, the old client's end looks like a
    // crash, whose healing finds nothing to heal.
    let drains = draining::begin(records, old, &successor.record.id);
    kill_point::pass(Point::PredecessorDrains);
    replaced.settle(deadline);
    takeover::note(&mut successor.record, &replaced);
    let committed = successor.commit();
    kill_point::pass(Point::Replaced);
    drop(lock);
    let record = successor.finish();
    drains.and(committed).map(|()| record)
}

/// The mount itself, if its client lives: nobody answers for a dead one.
fn opened(record: &Record) -> Option<OwnedFd> {
    record.init.filter(|init| init.is_alive())?;
    state::in_its_namespace(record, || takeover::open(record, Instant::now() + shown::PATIENCE)).flatten()
}

/// How often it is looked whether the old client still lives.
const LOOK: Duration = Duration::from_millis(50);

fn write_back(old: &Record, mount: BorrowedFd<'_>) -> Result<(), Obstacle> {
    let Ok(writing) = bounded_call::begin_to_write_back(mount) else { return Ok(()) };
    let deadline = Instant::now() + WRITE_BACK;
    while !sys::deadline::is_readable(writing.pidfd(), Instant::now() + LOOK).unwrap_or(true) {
        if !old.init.is_some_and(|init| init.is_alive()) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Obstacle::NotWrittenBack { within: WRITE_BACK });
        }
    }
    match writing.answer() {
        Some(Err(errno @ (Errno::IO | Errno::NOSPC | Errno::DQUOT))) => {
            let why = format!("what was written to the old one cannot be written back ({})", sys::error::name(errno));
            Err(Obstacle::NotReplaceable { why })
        }
        // Where root may not list the directory, what is dirty is written back in its own time.
        _ => Ok(()),
    }
}
