//! csi.v1.Controller: volumes that are directories of a base volume, of whatever type that is. Nothing is kept here: the volume's id says where
//! its base is, and the base has a note of each volume.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shorefast_engine::request::Author;
use shorefast_worker::task::{NewVolume, Note, Task, key};
use shorefast_worker::{Answer, Operation};
use tonic::Status;

use crate::driver::Driver;
use crate::labels::Selinux;
use crate::messages::{
    Capability, CapacityRange, Confirmed, CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, Empty, GetCapabilitiesResponse,
    ServiceCapability, ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse, Volume, VolumeCapability,
    controller_capability,
};
use crate::volume::SUB_DIRECTORY;
use crate::volume_id::{self, Provisioned};
use crate::{capability, labels, provisioned, secrets, status, volume};

/// What is left of the caller's deadline for the way back: an answer of ours says more than a timeout.
const WAY_BACK: Duration = Duration::from_secs(1);
/// The longest name of a volume that we take.
const LONGEST_NAME: usize = 1024;

pub(crate) async fn create(driver: Arc<Driver>, message: CreateVolumeRequest, deadline: Instant) -> Result<CreateVolumeResponse, Status> {
    if message.name.is_empty() || message.name.len() > LONGEST_NAME {
        return Err(Status::invalid_argument("name is missing, or too long"));
    }
    if message.volume_content_source.is_some() {
        return Err(Status::invalid_argument("volume_content_source: volumes begin empty here"));
    }
    if !message.mutable_parameters.is_empty() {
        return Err(Status::invalid_argument("mutable_parameters: nothing of a volume can be changed later"));
    }
    let flags = check_capabilities(&message.volume_capabilities)?;
    let (required, limit) = capacity(message.capacity_range.as_ref())?;
    let parameters = provisioned::parse(&message.name, &message.parameters)?;
    let volume = Provisioned::of(key(&parameters.directory), &with_options(&parameters.base, &flags));
    let volume_id = volume.id()?;
    let new = NewVolume {
        name: message.name,
        directory: parameters.directory,
        required,
        limit,
        mode: parameters.mode,
        on_delete: parameters.on_delete,
        made_of: key(Path::new(&format!("{volume_id} {:o}", parameters.mode))),
    };
    let note = perform(&driver, &volume_id, &volume, Task::Create(new), &message.secrets, deadline).await?;
    let Some(note) = note else { return Err(Status::internal("the worker's answer is another one's")) };
    let mut volume_context = parameters.base;
    volume_context.insert(SUB_DIRECTORY.to_owned(), note.directory.to_string_lossy().into_owned());
    let capacity_bytes = i64::try_from(note.capacity).unwrap_or(i64::MAX);
    Ok(CreateVolumeResponse { volume: Some(Volume { capacity_bytes, volume_id, volume_context }) })
}

pub(crate) async fn delete(driver: Arc<Driver>, message: DeleteVolumeRequest, deadline: Instant) -> Result<Empty, Status> {
    volume_id::check(&message.volume_id)?;
    // One that we did not make is not there, and we remove nothing of it.
    let Some(volume) = Provisioned::parse(&message.volume_id) else { return Ok(Empty {}) };
    let task = Task::Delete(volume.key.clone());
    perform(&driver, &message.volume_id, &volume, task, &message.secrets, deadline).await.map(|_| Empty {})
}

pub(crate) async fn validate(
    driver: Arc<Driver>,
    message: ValidateVolumeCapabilitiesRequest,
    deadline: Instant,
) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
    volume_id::check(&message.volume_id)?;
    if message.volume_capabilities.is_empty() {
        return Err(Status::invalid_argument("volume_capabilities is missing"));
    }
    let unknown = || Status::not_found("there is no such volume of ours");
    let volume = Provisioned::parse(&message.volume_id).ok_or_else(unknown)?;
    let task = Task::Find(volume.key.clone());
    let note = perform(&driver, &message.volume_id, &volume, task, &message.secrets, deadline).await?.ok_or_else(unknown)?;
    let checked = check_capabilities(&message.volume_capabilities).and_then(|_| check_context(&message.volume_context, &volume, &note));
    Ok(match checked {
        Ok(()) => ValidateVolumeCapabilitiesResponse {
            confirmed: Some(Confirmed {
                volume_context: message.volume_context,
                volume_capabilities: message.volume_capabilities,
                parameters: message.parameters,
            }),
            message: String::new(),
        },
        Err(status) => ValidateVolumeCapabilitiesResponse { confirmed: None, message: status.message().to_owned() },
    })
}

pub(crate) fn capabilities(_: Empty) -> Result<GetCapabilitiesResponse, Status> {
    let kinds = [controller_capability::CREATE_DELETE_VOLUME, controller_capability::SINGLE_NODE_MULTI_WRITER];
    let capability = |kind| ServiceCapability { rpc: Some(Capability { kind }) };
    Ok(GetCapabilitiesResponse { capabilities: kinds.into_iter().map(capability).collect() })
}

async fn perform(
    driver: &Driver,
    id: &str,
    volume: &Provisioned,
    task: Task,
    given: &HashMap<String, String>,
    deadline: Instant,
) -> Result<Option<Note>, Status> {
    let (names, descriptors) = secrets::hand_over(&secrets::of_volume(given))?;
    // The base is written to, whatever its volumes are for.
    let mut request = volume::request(id, &volume.base, &["rw".to_owned()], Author::Administrator)?;
    request.options = labels::for_host(request.options, Selinux::of_this_host())?;
    let lock = driver.locks.take(id)?;
    let within = deadline.saturating_duration_since(Instant::now() + WAY_BACK).max(Duration::from_millis(1));
    (request.timeout, request.image_timeout) = (within, Some(within));
    let operation = Operation::Base { request: Box::new(request), secrets: names, task, within };
    match driver.operations.ask(operation, descriptors, deadline, lock).await.result {
        Ok(Answer::Volume(note)) => Ok(note),
        Ok(_) => Err(Status::internal("the worker's answer is another one's")),
        Err(failure) => Err(status::of(&failure)),
    }
}

/// Gives the options that all have in common: a StorageClass has one list.
fn check_capabilities(capabilities: &[VolumeCapability]) -> Result<Vec<String>, Status> {
    let parsed = capabilities.iter().map(|one| capability::parse(Some(one))).collect::<Result<Vec<_>, _>>()?;
    parsed.into_iter().next().map(|first| first.flags).ok_or_else(|| Status::invalid_argument("volume_capabilities is missing"))
}

/// What the caller believes of the volume, as far as it says.
fn check_context(context: &HashMap<String, String>, volume: &Provisioned, note: &Note) -> Result<(), Status> {
    let directory = note.directory.to_string_lossy();
    let is_so = |name: &str, value: &str| match name {
        SUB_DIRECTORY => value == directory,
        // With the class's list of options, it is longer.
        "mountOptions" => true,
        name => volume.base.get(name).is_some_and(|own| own == value),
    };
    let ours = context.iter().filter(|(name, _)| !volume::is_added_by_kubernetes(name));
    match ours.into_iter().find(|(name, value)| !is_so(name, value)) {
        Some((name, _)) => Err(Status::invalid_argument(format!("volume_context: this is not the {name:?} of the volume"))),
        None => Ok(()),
    }
}

/// The base with the options of the class's `mountOptions` list: those reach the node by themselves, but a deletion does not have them.
fn with_options(base: &HashMap<String, String>, flags: &[String]) -> HashMap<String, String> {
    let given = base.get("mountOptions").into_iter().chain(flags).map(String::as_str);
    let all: Vec<_> = given.filter(|options| !options.is_empty()).collect();
    let mut base = base.clone();
    if !all.is_empty() {
        base.insert("mountOptions".to_owned(), all.join(","));
    }
    base
}

fn capacity(range: Option<&CapacityRange>) -> Result<(u64, u64), Status> {
    let Some(range) = range else { return Ok((0, 0)) };
    match (u64::try_from(range.required_bytes), u64::try_from(range.limit_bytes)) {
        (Ok(required), Ok(limit)) if limit == 0 || required <= limit => Ok((required, limit)),
        (Ok(_), Ok(_)) => Err(Status::out_of_range("capacity_range: more is required than the limit allows")),
        _ => Err(Status::invalid_argument("capacity_range: sizes are not negative")),
    }
}
