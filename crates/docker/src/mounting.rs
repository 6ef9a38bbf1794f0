//! A volume is mounted for its first user and unmounted after its last. Users are counted by id, so that a call that comes again, from an
//! engine or to a plugin that was restarted meanwhile, changes nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use shorefast_engine::error::{Failure, Kind};
use shorefast_engine::existing;
use shorefast_engine::request::{DEFAULT_TIMEOUT, Request};
use shorefast_engine::unmount::Manner;
use shorefast_worker::job::Directory;
use shorefast_worker::{Answer, Operation};
use tokio::sync::oneshot;

use crate::error::Error;
use crate::options;
use crate::plugin::{Held, Plugin, blocking};
use crate::volumes::Absent;

/// Docker waits two minutes for a mount, and one for everything else. An answer of ours says more than its timeout.
const MOUNT: Duration = Duration::from_secs(110);
pub(crate) const OTHERS: Duration = Duration::from_secs(50);
/// What is left for the way back.
const WAY_BACK: Duration = Duration::from_secs(2);

/// Between a volume's mount and its container's start lies at most the mount of another volume.
const FORGOTTEN: Duration = Duration::from_secs(150);

/// How its mounts are called among the engine's.
pub(crate) fn label(name: &str) -> String {
    format!("docker:{name}")
}

/// The place where it is mounted, for one user more.
pub(crate) async fn mount(plugin: Arc<Plugin>, name: String, id: String) -> Result<String, Error> {
    // Dropped with this request. The work goes on without its caller until nothing is left of it.
    let (_caller, gone) = oneshot::channel();
    finished(tokio::spawn(mount_for(plugin, name, id, gone))).await
}

/// Whatever becomes of the caller: half an unmount is none.
pub(crate) async fn unmount(plugin: Arc<Plugin>, name: String, id: String) -> Result<(), Error> {
    finished(tokio::spawn(unmount_for(plugin, name, id))).await
}

pub(crate) async fn finished<T>(work: tokio::task::JoinHandle<Result<T, Error>>) -> Result<T, Error> {
    work.await.map_err(|error| Error::Internal(error.to_string()))?
}

async fn mount_for(plugin: Arc<Plugin>, name: String, id: String, gone: oneshot::Receiver<()>) -> Result<String, Error> {
    let deadline = Instant::now() + MOUNT;
    let held = plugin.hold(&name, Absent::Refused, deadline).await?;
    let (user, of, records) = (id.clone(), Arc::clone(&held), plugin.records.clone());
    let (volume, is_mounted) = blocking(move || {
        let volume = of.locked.read()?.ok_or_else(|| Error::UnknownVolume(of.locked.name.clone()))?;
        // Before the mount: whoever else ends with this volume leaves it mounted.
        of.locked.users().add(&user).map_err(Error::state(&of.locked.place().path()))?;
        let there = of.locked.record().and_then(|record| existing::in_place(&records, &record));
        Ok((volume, there.is_some_and(|record| record.label == Some(label(&of.locked.name)))))
    })
    .await?;
    let target = held.locked.place();
    let place = target.path();
    if is_mounted {
        return Ok(place.to_string_lossy().into_owned());
    }
    let left = deadline.saturating_duration_since(Instant::now() + WAY_BACK);
    let request = Request {
        target: place.clone(),
        timeout: left.min(DEFAULT_TIMEOUT),
        image_timeout: Some(left),
        ..options::request(label(&name), &volume.options)
    };
    let operation = Operation::MountBelow { request: Box::new(request), target, directory: Directory::Made, secrets: Vec::new() };
    let mounted = tokio::select! {
        outcome = plugin.operations.ask(operation, Vec::new(), deadline, Arc::clone(&held)) => match outcome.result {
            Ok(Answer::Mounted(record)) => Ok(record.map(|record| record.id)),
            Err(failure) if !failure.is_same_volume() => Err(Error::of_worker(&name, &failure)),
            _ => Ok(None),
        },
        // Its worker ends with the question.
        _ = gone => Err(Error::CallerGone),
    };
    match mounted {
        Ok(record) => {
            blocking(move || {
                held.locked.set_error(None);
                record.iter().for_each(|record| held.locked.set_record(record));
                Ok(())
            })
            .await?;
            Ok(place.to_string_lossy().into_owned())
        }
        Err(error) => {
            give_up(&plugin, held, id, error.to_string()).await;
            Err(error)
        }
    }
}

/// After a failure there is one user less, and nothing mounted for nobody.
async fn give_up(plugin: &Plugin, held: Arc<Held>, id: String, said: String) {
    let of = Arc::clone(&held);
    let others = blocking(move || {
        of.locked.set_error(Some(&said));
        of.locked.users().remove(&id).map_err(Error::state(&of.locked.place().path()))?;
        Ok(of.locked.users().count())
    });
    // The failure itself is what its user has to know.
    if others.await.is_ok_and(|others| others == 0) {
        let _ = take_off(plugin, &held, Instant::now() + OTHERS).await;
    }
}

async fn unmount_for(plugin: Arc<Plugin>, name: String, id: String) -> Result<(), Error> {
    let deadline = Instant::now() + OTHERS;
    let held = match plugin.hold(&name, Absent::Refused, deadline).await {
        // What is not there is not mounted.
        Err(Error::UnknownVolume(_)) => return Ok(()),
        held => held?,
    };
    let of = Arc::clone(&held);
    blocking(move || of.locked.users().remove(&id).map_err(Error::state(&of.locked.place().path()))).await?;
    if users(&plugin, &held, FORGOTTEN, deadline).await? > 0 {
        return Ok(());
    }
    let off = take_off(&plugin, &held, deadline).await;
    let said = off.as_ref().err().map(ToString::to_string);
    blocking(move || {
        held.locked.set_error(said.as_deref());
        Ok(())
    })
    .await?;
    off
}

/// How many use it. An engine that was killed never says that its containers are gone: those who came longer ago than `patience` count only as
/// long as the volume is mounted in a container, or elsewhere.
pub(crate) async fn users(plugin: &Plugin, held: &Arc<Held>, patience: Duration, deadline: Instant) -> Result<usize, Error> {
    let of = Arc::clone(held);
    let look = blocking(move || Ok((of.locked.users().count(), of.locked.users().since_the_last())));
    let (count, last) = look.await?;
    if last.is_none_or(|last| last < patience) {
        return Ok(count);
    }
    let operation = Operation::IsUsed { target: held.locked.place().path() };
    match plugin.operations.ask(operation, Vec::new(), deadline, Arc::clone(held)).await.result {
        Ok(Answer::IsUsed(false)) => {
            let of = Arc::clone(held);
            blocking(move || of.locked.users().remove_all().map_err(Error::state(&of.locked.place().path()))).await?;
            Ok(0)
        }
        // What is not known counts.
        _ => Ok(count),
    }
}

/// Unmounts it, if it is mounted, and removes the directory that it was mounted on.
pub(crate) async fn take_off(plugin: &Plugin, held: &Arc<Held>, deadline: Instant) -> Result<(), Error> {
    let place = held.locked.place();
    let ask = async |operation: Operation| plugin.operations.ask(operation, Vec::new(), deadline, Arc::clone(held)).await.result.map(drop);
    let mut off = ask(Operation::Unpublish(place.clone())).await;
    if let Err(Failure { kind: Kind::Busy, .. }) = off {
        // Some process of the host has a file open there. For containers the volume is off; that process can go on until it is done.
        off = ask(Operation::Unmount { target: place.path(), manner: Manner::Lazy }).await;
        if off.is_ok() {
            off = ask(Operation::Unpublish(place)).await;
        }
    }
    off.map_err(|failure| Error::of_worker(&held.locked.name, &failure))
}
