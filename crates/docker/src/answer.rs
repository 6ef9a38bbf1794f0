//! In: a call. Out: its answer. Calls that only query read our own files and the kernel's tables, never a mount: a dead server delays
//! only callers that want to use its volume.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use shorefast_engine::error::{Failure, Kind};
use shorefast_engine::record::Record;
use shorefast_engine::state::{Look, State};
use shorefast_worker::{Answer as WorkersAnswer, Operation};

use crate::call::Call;
use crate::error::Error;
use crate::messages::{Answer, Capabilities, Shown, Status};
use crate::mounting::{self, OTHERS, finished, label};
use crate::options::{self, Options};
use crate::plugin::{Plugin, blocking};
use crate::volumes::{Absent, Volume, Volumes};

/// For reading one mount's record.
const TO_LOOK: Duration = Duration::from_secs(5);
/// Reads definitions only, no image and no server.
const TO_CHECK: Duration = Duration::from_secs(20);

/// The requesting engine has no container with the volume; another engine may be about to start one.
const JUST_NOW: Duration = Duration::from_secs(10);

pub(crate) async fn to(plugin: Arc<Plugin>, call: Call) -> Result<Answer, Error> {
    match call {
        Call::Activate => Ok(Answer { implements: Some(["VolumeDriver"]), ..Answer::default() }),
        Call::Capabilities => Ok(Answer { capabilities: Some(Capabilities { scope: "local" }), ..Answer::default() }),
        Call::List => list(&plugin).await,
        Call::Get { name } => get(&plugin, name).await,
        Call::Path { name } => {
            let shown = known(&plugin, &name).await.map(|volume| shown(&plugin.volumes, name, &volume))?;
            Ok(Answer { mountpoint: Some(shown.mountpoint), ..Answer::default() })
        }
        Call::Create { name, options } => finished(tokio::spawn(create(plugin, name, options))).await,
        Call::Remove { name } => finished(tokio::spawn(remove(plugin, name))).await,
        Call::Mount { name, id } => {
            let mountpoint = mounting::mount(plugin, name, id).await?;
            Ok(Answer { mountpoint: Some(mountpoint), ..Answer::default() })
        }
        Call::Unmount { name, id } => mounting::unmount(plugin, name, id).await.map(|()| Answer::default()),
    }
}

async fn list(plugin: &Plugin) -> Result<Answer, Error> {
    let volumes = plugin.volumes.clone();
    let all = blocking(move || Ok(volumes.all()?.into_iter().map(|(name, volume)| shown(&volumes, name, &volume)).collect()));
    Ok(Answer { volumes: Some(all.await?), ..Answer::default() })
}

async fn get(plugin: &Plugin, name: String) -> Result<Answer, Error> {
    let volume = known(plugin, &name).await?;
    let status = status(plugin, &name, &volume).await?;
    let shown = Shown { status: Some(status), ..shown(&plugin.volumes, name, &volume) };
    Ok(Answer { volume: Some(shown), ..Answer::default() })
}

async fn known(plugin: &Plugin, name: &str) -> Result<Volume, Error> {
    let (volumes, of) = (plugin.volumes.clone(), name.to_owned());
    blocking(move || volumes.read(&of)).await?.ok_or_else(|| Error::UnknownVolume(name.to_owned()))
}

fn shown(volumes: &Volumes, name: String, volume: &Volume) -> Shown {
    let mountpoint = volumes.place(&name).path().to_string_lossy().into_owned();
    Shown { name, mountpoint, created_at: humantime::format_rfc3339_seconds(volume.created).to_string(), status: None }
}

async fn status(plugin: &Plugin, name: &str, volume: &Volume) -> Result<Status, Error> {
    let (volumes, records, of) = (plugin.volumes.clone(), plugin.records.clone(), name.to_owned());
    let look = blocking(move || {
        let users = volumes.users(&of).count();
        let record = volumes.record(&of).filter(|_| users > 0).and_then(|id| records.get(&id).ok().flatten());
        let standing = record.and_then(|record| Look::here(&records).at(&record).map(|standing| (record, standing)));
        Ok((users, volumes.last_error(&of), standing))
    });
    let (users, error, known) = look.await?;
    let status = Status { state: "unmounted".to_owned(), client: volume.client.clone(), image: volume.image.clone(), users, error };
    let of = |record: Record, state: State| Status {
        state: serde_json::to_value(state).ok().and_then(|state| state.as_str().map(str::to_owned)).unwrap_or_default(),
        client: record.client,
        image: record.image,
        ..status.clone()
    };
    if let Some((record, standing)) = known {
        return Ok(of(record, standing.state));
    }
    if users == 0 {
        return Ok(status);
    }
    let operation = Operation::Inspect { target: plugin.volumes.place(name).path() };
    Ok(match plugin.operations.ask(operation, Vec::new(), Instant::now() + TO_LOOK, ()).await.result {
        Ok(WorkersAnswer::Inspected(listed)) => match listed.standing {
            Some(standing) => of(listed.record, standing.state),
            None => status,
        },
        Err(Failure { kind: Kind::NotFound, .. }) => status,
        Ok(_) | Err(_) => Status { state: "unknown".to_owned(), ..status },
    })
}

async fn create(plugin: Arc<Plugin>, name: String, options: Options) -> Result<Answer, Error> {
    let held = plugin.hold(&name, Absent::Made, Instant::now() + OTHERS).await?;
    let of = Arc::clone(&held);
    if let Some(there) = blocking(move || of.locked.read()).await? {
        let differs = options::differences(&there.options, &options);
        return if differs.is_empty() { Ok(Answer::default()) } else { Err(Error::Exists { name, differs }) };
    }
    let checked = check(&plugin, &name, &options).await;
    blocking(move || {
        let written = checked.and_then(|(client, image)| held.locked.write(&Volume { options, created: SystemTime::now(), client, image }));
        // Leaves nothing of a volume that was not created.
        written.inspect_err(|_| drop(held.locked.forget()))
    })
    .await?;
    Ok(Answer::default())
}

/// Its client and image.
async fn check(plugin: &Plugin, name: &str, options: &Options) -> Result<(String, String), Error> {
    let operation = Operation::Check(Box::new(options::request(label(name), options)));
    match plugin.operations.ask(operation, Vec::new(), Instant::now() + TO_CHECK, ()).await.result {
        Ok(WorkersAnswer::Checked(checked)) => match checked.secrets.first() {
            Some(secret) => Err(Error::Secret { what: format!("the value of {secret:?} in the option \"o\"") }),
            None => Ok((checked.client, checked.image)),
        },
        Ok(_) => Err(Error::Internal("the worker's answer is another one's".to_owned())),
        Err(failure) => Err(Error::of_worker(name, &failure)),
    }
}

/// Removes only our own files. The volume's content belongs to its server.
async fn remove(plugin: Arc<Plugin>, name: String) -> Result<Answer, Error> {
    let deadline = Instant::now() + OTHERS;
    let held = match plugin.hold(&name, Absent::Refused, deadline).await {
        // An earlier answer may have been lost.
        Err(Error::UnknownVolume(_)) => return Ok(Answer::default()),
        held => held?,
    };
    let users = mounting::users(&plugin, &held, JUST_NOW, deadline).await?;
    if users > 0 {
        return Err(Error::InUse { name, users });
    }
    mounting::take_off(&plugin, &held, deadline).await?;
    blocking(move || held.locked.forget()).await?;
    Ok(Answer::default())
}
