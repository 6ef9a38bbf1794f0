//! Volumes that are directories of another volume, their base. In: how the base is mounted, and a task. Out: the volume's note.
//!
//! ```text
//! worker, in a mount namespace of its own            worker of that worker
//! ───────────────────────────────────────            ─────────────────────
//! mounts the base
//! Operation::InBase ── its root as a descriptor ───► volume::perform: makes, removes or finds the directory
//!                   ◄── Outcome ───────────────────  ends
//! unmounts the base
//! ```
//! In the worker's own namespace no other process sees the base, nothing can be mounted in it, and it is unmounted when the worker ends, for
//! whatever reason. Only the second worker touches files, so a server that does not answer blocks only that one: it is abandoned, and the base
//! is unmounted by force, which ends its wait.

pub mod volume;
pub mod tree;
pub mod note;

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal};
use shorefast_engine::error::{Failure, Kind, Step};
use shorefast_engine::records::Records;
use shorefast_engine::unmount::{self, Manner};
use shorefast_engine::{Error, Installation};
use shorefast_sys as sys;
use sys::bounded_call;

use crate::ask::Workers;
use crate::job::{Answer, Operation, Outcome};
use crate::task::Task;

/// The time that is reserved for the unmount.
const TO_UNMOUNT: Duration = Duration::from_secs(5);

/// `mount` mounts the base at the path that it gets.
pub(crate) fn perform(
    installation: &Installation,
    task: &Task,
    within: Duration,
    mount: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<Answer, Box<Failure>> {
    let end = Instant::now() + within.saturating_sub(TO_UNMOUNT).max(within / 2);
    let own = sys::namespace::unshare_mount().and_then(|()| sys::mount::make_all_private());
    own.map_err(|error| Box::new(Failure::new(Step::Start, Kind::Internal, error.to_string())))?;
    let place = Place::make(&installation.run_dir)?;
    mount(&place.path)?;
    let outcome = in_base(installation, &place.path, task, end);
    let is_late = outcome.result.as_ref().is_err_and(|failure| failure.kind == Kind::Deadline);
    let manner = if is_late { Manner::Force } else { Manner::Polite };
    let unmounted = unmount::unmount(&Records::at(&installation.run_dir), &place.path, manner);
    let answer = outcome.result.map_err(Box::new)?;
    // If the client could not write back its data, the task has failed.
    unmounted?;
    Ok(answer)
}

fn in_base(installation: &Installation, place: &Path, task: &Task, end: Instant) -> Outcome {
    let failed = |kind, message: String| Outcome::from(Failure::new(Step::Serve, kind, message));
    let root = match bounded_call::open(place, OFlags::PATH | OFlags::DIRECTORY, end) {
        bounded_call::Bounded::Done(root) => root,
        bounded_call::Bounded::Failed(error) => return failed(Kind::Failed, error.to_string()),
        bounded_call::Bounded::TimedOut => return failed(Kind::Deadline, "the base volume's server does not answer".to_owned()),
    };
    match Workers::of_this_binary(installation.clone()) {
        Ok(workers) => workers.ask(Operation::InBase(task.clone()), &[root.as_fd()], end),
        Err(error) => failed(Kind::Internal, format!("cannot start a worker: {error}")),
    }
}

/// The second worker's part.
pub(crate) fn in_second_worker(task: &Task, descriptors: &[OwnedFd]) -> Result<Answer, Box<Failure>> {
    // If the first worker is killed, this one has to end, too: it holds the namespace.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let Some(root) = descriptors.first() else {
        return Err(Box::new(Failure::new(Step::Start, Kind::Internal, "the base volume was not passed on".to_owned())));
    };
    volume::perform(root, task).map(Answer::Volume)
}

/// A directory to mount at, named after this process. Dropped: removed.
struct Place {
    path: PathBuf,
}

const DIRECTORY: &str = "bases";

impl Place {
    fn make(run_dir: &Path) -> Result<Self, Box<Failure>> {
        let directory = run_dir.join(DIRECTORY);
        remove_stale(&directory);
        let path = directory.join(std::process::id().to_string());
        let failed = |error| Failure::new(Step::Record, Kind::Internal, format!("cannot create {}: {error}", path.display()));
        // Creates the run directory, too, if this is the first mount: for root alone.
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|error: std::io::Error| Box::new(failed(error)))?;
        Ok(Self { path })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
        // Only the last one succeeds.
        let _ = self.path.parent().map(fs::remove_dir);
    }
}

/// Removes directories of workers that were killed. Not recursive: a directory that is not empty stays.
fn remove_stale(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let maker = entry.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
        if maker.is_some_and(|maker| !sys::process::has_memory(maker)) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
