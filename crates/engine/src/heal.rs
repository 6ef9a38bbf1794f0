//! A client has ended. In: its mount's id, and what its keeper held: the recipe, and the client's end of the FUSE connection. Out: a new
//! client that has taken over wherever the mount is; or a clean host, if that was no crash.
//!
//! As long as the connection is held here, users of the mount wait. They are told last, when the new client is in place: their requests are
//! answered with ESTALE, for which the kernel walks the path again, to the new mount. An attempt that fails lets go of the connection, so
//! that nobody waits longer than a mount may take, and the dead mount stays: the directory below it is never to be seen.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use shorefast_image::store::Network;
use shorefast_sys as sys;
use sys::ring::Log;

use crate::client_end::ClientEnd;
use crate::error::{self, Error, Obstacle};
use crate::exit_policy::HealPolicy;
use crate::journal::{self, About, Event, Level};
use crate::kill_point::{self, Point};
use crate::recipe::Recipe;
use crate::reconcile::Covered;
use crate::record::{self, Crash, Record, Replaces};
use crate::records::Records;
use crate::replace::Primary;
use crate::wait_status::WaitStatus;
use crate::{Installation, answer, last_words, plan, reconcile, recover, state, successor, takeover, target_lock};

/// What a keeper held.
#[derive(Debug)]
pub struct Held {
    /// While it is open, the mount's users wait. `None`: it was let go, or never held.
    connection: Option<OwnedFd>,
    recipe: Option<File>,
}

impl Held {
    /// From the numbers at which a keeper has them. Called before anything else opens descriptors.
    pub fn take() -> Self {
        Self {
            connection: sys::descriptors::take(sys::shim::CONNECTION),
            // Opened anew, for a position of its own in the file.
            recipe: File::open(format!("/proc/self/fd/{}", sys::shim::RECIPE)).ok(),
        }
    }
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Nothing,
    /// The attempt failed: again, after this time, by a new process.
    Again(Duration),
}

/// A keeper's last step: its sandbox has ended, or the process that was mounting died.
pub fn ended(records: &Records, id: &str, held: Held) -> Result<Next, Error> {
    let since = Instant::now();
    kill_point::read(records.directory());
    let record = records.get(id).ok().flatten().or_else(|| recover::from_own_log(id));
    if let Some(record) = record.as_ref().filter(|record| record.replaced_by.is_some()) {
        drained(records, record, held);
        return Ok(Next::Nothing);
    }
    let Some((record, policy)) = record.and_then(|record| Some((record.heal?, record)).map(|(policy, record)| (record, policy))) else {
        drop(held);
        return reconcile::ended(records, id).map(|()| Next::Nothing);
    };
    let log = held_log();
    let end = ClientEnd { status: log.ended.map(WaitStatus), ..reconcile::end_of_client(records, &record) };
    if end.is_well(&record.ends_with) {
        // As without us: whoever ends its service in order takes its mount along.
        drop(held);
        reconcile::clean_up(records, &record);
        return Ok(Next::Nothing);
    }
    if !is_crash(records, &record, &held) {
        drop(held);
        return reconcile::ended(records, id).map(|()| Next::Nothing);
    }
    let mut crash = Crash::now(&record, end, last_words::of_crash(&log, &record.target));
    if recent(&record, policy) >= policy.crashes {
        let problem = format!("given up: {} crashes within {} s", policy.crashes, policy.within_seconds);
        tell(&record, Level::Error, Event::GaveUp, &format!("its client died ({end}), and no other is started: {problem}"));
        note(records, &record, Crash { problem: Some(problem), ..crash });
        return Ok(Next::Nothing);
    }
    match take_over(records, &record, held, &crash, since) {
        Ok(()) => Ok(Next::Nothing),
        Err(error) => {
            let said = error::chain(&error, |error| error.to_string());
            tell(
                &record,
                Level::Warning,
                Event::NotHealed,
                &format!("its client died ({end}), and another could not take over yet: {said}"),
            );
            crash.problem = Some(said);
            note(records, &record, crash);
            Ok(Next::Again(pause(recent(&record, policy))))
        }
    }
}

/// Another client had its places. Whoever asked this one by path comes to that; what was open on it is lost, unless all of it was closed.
fn drained(records: &Records, record: &Record, held: Held) {
    if let Some(connection) = &held.connection {
        let _ = answer::all_as_stale(connection.as_fd(), QUIET, Instant::now() + SWAP);
    }
    drop(held);
    reconcile::clean_up(records, record);
}

fn tell(record: &Record, level: Level, event: Event, what: &dyn std::fmt::Display) {
    journal::tell(level, event, About { id: Some(&record.id), target: &record.target, client: &record.client }, what);
}

/// How many crashes and failed attempts there were lately.
fn recent(record: &Record, policy: HealPolicy) -> u32 {
    let from = record::now().saturating_sub(policy.within_seconds);
    u32::try_from(record.crashes.iter().filter(|crash| crash.at >= from).count()).unwrap_or(u32::MAX)
}

/// Longer after each failure, so that a server has time to come back.
fn pause(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.min(6))
}

/// Also the end of this attempt: the sandbox is gone, and its control groups go.
fn note(records: &Records, record: &Record, crash: Crash) {
    reconcile::remove_cgroup(&record.cgroup);
    let _ = records.rewrite(&record.with_crash(crash));
}

/// The mount is complete and still there, and there is what it takes to start another client.
fn is_crash(records: &Records, record: &Record, held: &Held) -> bool {
    let is_being_made = records.maker(&record.id).is_some_and(|maker| maker.is_alive());
    held.recipe.is_some() && !is_being_made && is_in_place(records, record, held)
}

/// What the client said, and how it ended (`None`: it was killed with its whole sandbox), by the log that a keeper holds: its name may be
/// gone.
fn held_log() -> Log {
    let log = PathBuf::from(format!("/proc/self/fd/{}", sys::shim::LOG));
    Log::read(&log).unwrap_or_default()
}

/// At its own place or, bound by others, at any: a connection ends with its last mount.
fn is_in_place(records: &Records, record: &Record, held: &Held) -> bool {
    let is_connected = |connection: &OwnedFd| {
        let mut fds = [PollFd::new(connection, PollFlags::IN)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).is_ok() && !fds[0].revents().contains(PollFlags::ERR)
    };
    state::is_dead(records, record) || held.connection.as_ref().is_some_and(is_connected)
}

/// For the swap and the answers, once the new client serves. Longer than any process takes to unmount the dead mount: what that aborted is
/// not begun anew.
const SWAP: Duration = Duration::from_secs(10);
/// How long nobody may ask any more before the old connection is let go.
const QUIET: Duration = Duration::from_millis(300);
fn take_over(records: &Records, old: &Record, held: Held, crash: &Crash, since: Instant) -> Result<(), Error> {
    let Some(recipe) = held.recipe.as_ref().and_then(Recipe::read) else { return Err(Error::NoRecipe) };
    let installation = Installation {
        run_dir: records.directory().to_owned(),
        root: recipe.images.clone(),
        network: Network::Forbidden,
        ..Default::default()
    };
    let host = installation.host(std::sync::Arc::new(shorefast_image::Silent));
    let mut plan = plan::again(&recipe)?;
    let patience = old.heal.and_then(|policy| policy.deadline_seconds).map_or(plan.timeout, Duration::from_secs);
    // One for everything until the new client serves, counted from the crash on, and one for all that comes then.
    let (until, end) = (since + patience, since + patience + SWAP);
    let _only = target_lock::take(&host.run_dir, old.namespace, &old.target, until)?;
    // It died while another one was being put in its places, and that went on.
    if let Ok(Some(now)) = records.get(&old.id)
        && now.replaced_by.is_some()
    {
        drained(records, &now, held);
        return Ok(());
    }
    // Those that share the host's processes have not ended with the first of them. Now: the new client's look like them.
    let has_ended = reconcile::end_client(old);
    if !has_ended && plan.exclusive {
        return Err(Error::CannotReplace { path: old.target.clone(), why: Obstacle::StillRuns });
    }
    plan.timeout = until.saturating_duration_since(Instant::now());
    let mut released = successor::start(records, old, &plan, &host)?.release(&plan)?;
    kill_point::pass(Point::SuccessorServes);
    let lock = records.lock(&old.id, end);
    if !is_in_place(records, old, &held) {
        // Unmounted meanwhile: the new client ends with its mount, which nobody has seen.
        return reconcile::ended(records, &old.id);
    }
    let Some(replaces) = Replaces::of(old) else { return Err(Error::NoRecipe) };
    let mut replaced = takeover::carry_out(&replaces, &mut released.record, released.mounted.mount.as_fd(), end, Primary::AsOthers)?;
    if replaced.places.is_empty() {
        return match replaced.degraded.first() {
            // Tried again: what is in the way may go.
            Some(degraded) => {
                let why = Obstacle::NotReplaceable { why: degraded.to_string() };
                Err(Error::CannotReplace { path: old.target.clone(), why })
            }
            // Unmounted meanwhile.
            None => reconcile::ended(records, &old.id),
        };
    }
    let took = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    let healed_after_ms = Some(took);
    released.record.crashes = old.with_crash(Crash { healed_after_ms, ..crash.clone() }).crashes;
    let mut successor = released.attached();
    successor.commit()?;
    kill_point::pass(Point::Replaced);
    if let Some(connection) = &held.connection {
        // Whoever waits has waited long enough, and gets an answer in any case.
        let _ = answer::all_as_stale(connection.as_fd(), QUIET, end.max(Instant::now() + QUIET * 4));
    }
    drop(held);
    kill_point::pass(Point::Answered);
    replaced.settle(end);
    takeover::note(&mut successor.record, &replaced);
    successor.commit()?;
    drop(lock);
    // Its story ends with this crash.
    let old = &Record { crashes: successor.record.crashes.clone(), ..old.clone() };
    if reconcile::clean_up_replaced(records, old) == Covered::Yes {
        successor.record.covers = Some(old.id.clone());
        successor.commit()?;
    }
    kill_point::pass(Point::PredecessorRemoved);
    let new = successor.finish();
    tell(
        old,
        Level::Warning,
        Event::Healed,
        &format!("its client died ({}), and after {took} ms another had taken over: {}", crash.end, new.id),
    );
    Ok(())
}

/// Waits, or until the mount is gone or no longer wanted.
pub fn wait(records: &Records, id: &str, pause: Duration) {
    let until = Instant::now() + pause;
    let is_wanted = || records.get(id).ok().flatten().is_some_and(|record| record.heal.is_some() && state::is_dead(records, &record));
    while Instant::now() < until && is_wanted() {
        std::thread::sleep(Duration::from_millis(100));
    }
}
