//! A volume is mounted for its first user and unmounted after its last. Users are counted by id, so that a repeated call,
//! after a restart of the engine or of the plugin, changes nothing.

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

/// Docker waits two minutes for a mount, and one for everything else. Our own error says more than its timeout.
const MOUNT: Duration = Duration::from_secs(110);
pub(crate) const OTHERS: Duration = Duration::from_secs(50);
/// The time that is reserved for sending the answer.
const WAY_BACK: Duration = Duration::from_secs(2);

/// Between a volume's mount and its container's start, at most another volume is mounted.
const FORGOTTEN: Duration = Duration::from_secs(150);

/// The label of its mounts in the engine's records.
pub(crate) fn label(name: &str) -> String {
    format!("docker:{name}")
}

/// Mounts it if necessary, adds a user, and returns the path where it is mounted.
pub(crate) async fn mount(plugin: Arc<Plugin>, name: String, id: String) -> Result<String, Error> {
    // Dropped with this request. The work continues without its caller until it is cleaned up.
    let (_caller, gone) = oneshot::channel();
    finished(tokio::spawn(mount_for(plugin, name, id, gone))).await
}

/// Completed even if the caller is gone: an unmount must not stop half-way.
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
        // Before the mount: another user that ends meanwhile leaves the volume mounted.
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
        // The worker ends when the request is dropped.
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

/// After a failure, removes the user, and unmounts the volume if it was the last.
async fn give_up(plugin: &Plugin, held: Arc<Held>, id: String, said: String) {
    let of = Arc::clone(&held);
    let others = blocking(move || {
        of.locked.set_error(Some(&said));
        of.locked.users().remove(&id).map_err(Error::state(&of.locked.place().path()))?;
        Ok(of.locked.users().count())
    });
    // Only the failure itself is reported to the user.
    if others.await.is_ok_and(|others| others == 0) {
        let _ = take_off(plugin, &held, Instant::now() + OTHERS).await;
    }
}

async fn unmount_for(plugin: Arc<Plugin>, name: String, id: String) -> Result<(), Error> {
    let deadline = Instant::now() + OTHERS;
    let held = match plugin.hold(&name, Absent::Refused, deadline).await {
        // A volume that does not exist is not mounted.
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

/// The number of users. An engine that was killed never reports the end of its containers: users that were added longer ago than `patience`
/// count only as long as the volume is mounted in a container, or elsewhere.
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
        // In case of doubt, all users count.
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
