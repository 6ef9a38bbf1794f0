//! csi.v1.Node: mounts on this machine.
//!
//! A volume is staged once per machine, which is one client, and published for each pod, which is a copy of the staged mount. A volume that
//! is written in a pod itself is mounted where it is published.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shorefast_engine::error::{Failure, Kind};
use shorefast_engine::publish::{Access, Below, Wanted};
use shorefast_engine::request::{Author, Request};
use shorefast_engine::usage::Room;
use shorefast_worker::job::Directory;
use shorefast_worker::{Answer, Operation};
use tonic::Status;

use crate::driver::{Driver, Health};
use crate::labels::Selinux;
use crate::messages::{
    BYTES, Capability, Empty, GetCapabilitiesResponse, INODES, NodeGetInfoResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, ServiceCapability, VolumeUsage,
    node_capability,
};
use crate::probes::PATIENCE;
use crate::volume::EPHEMERAL;
use crate::{capability, labels, paths, secrets, status, volume, volume_id};

/// What is left of the caller's deadline for the way back: an answer of ours says more than a timeout.
const WAY_BACK: Duration = Duration::from_secs(2);

pub(crate) async fn stage(driver: Arc<Driver>, message: NodeStageVolumeRequest, deadline: Instant) -> Result<Empty, Status> {
    volume_id::check(&message.volume_id)?;
    let target = below(&driver, "staging_target_path", &message.staging_target_path)?;
    let wanted = capability::parse(message.volume_capability.as_ref())?;
    let request = volume::request(&message.volume_id, &message.volume_context, &wanted.flags, Author::Administrator)?;
    let request = Request { group: wanted.group, ..request };
    mount(&driver, request, target, Directory::Exists, &secrets::of_volume(&message.secrets), deadline).await
}

pub(crate) async fn unstage(driver: Arc<Driver>, message: NodeUnstageVolumeRequest, deadline: Instant) -> Result<Empty, Status> {
    volume_id::check(&message.volume_id)?;
    let staged = below(&driver, "staging_target_path", &message.staging_target_path)?;
    let lock = driver.locks.take(&message.volume_id)?;
    let result = driver.operations.ask(Operation::Unstage(staged), Vec::new(), deadline, lock).await.result;
    // There are copies, or somebody uses it: that has to end first.
    done(result.map(drop).map_err(|failure| precondition(failure, &[Kind::Busy])))
}

pub(crate) async fn publish(driver: Arc<Driver>, message: NodePublishVolumeRequest, deadline: Instant) -> Result<Empty, Status> {
    volume_id::check(&message.volume_id)?;
    let target = below(&driver, "target_path", &message.target_path)?;
    let wanted = capability::parse(message.volume_capability.as_ref())?;
    let access = if message.readonly { Access::ReadOnly } else { wanted.access };
    if message.staging_target_path.is_empty() {
        if message.volume_context.get(EPHEMERAL).is_none_or(|value| value != "true") {
            return Err(Status::failed_precondition("staging_target_path is missing, and this is no volume of a pod's own"));
        }
        let read_only = (access == Access::ReadOnly).then(|| "ro".to_owned());
        let flags: Vec<_> = wanted.flags.into_iter().chain(read_only).collect();
        let request = volume::request(&message.volume_id, &message.volume_context, &flags, Author::Guest)?;
        let request = Request { group: wanted.group, ..request };
        let secrets = secrets::of_pod(&message.secrets, &message.volume_context)?;
        return mount(&driver, request, target, Directory::Made, &secrets, deadline).await;
    }
    let staged = below(&driver, "staging_target_path", &message.staging_target_path)?;
    let secrets = secrets::of_volume(&message.secrets);
    if !secrets.is_empty() {
        let request = volume::request(&message.volume_id, &message.volume_context, &wanted.flags, Author::Administrator)?;
        // The group is compared when it is published.
        refresh(&driver, Request { target: staged.path(), ..request }, &secrets, deadline).await?;
    }
    let lock = driver.locks.take(&message.volume_id)?;
    let inside = volume::sub_directory(&message.volume_context)?;
    let copy = Wanted { staged, inside, target, access, sharing: wanted.sharing, label: message.volume_id, group: wanted.group };
    let result = driver.operations.ask(Operation::Publish(copy), Vec::new(), deadline, lock).await.result;
    // The staged mount is gone, or there is another copy of a volume that may have only one.
    done(result.map(drop).map_err(|failure| precondition(failure, &[Kind::NotFound, Kind::Busy])))
}

pub(crate) async fn unpublish(driver: Arc<Driver>, message: NodeUnpublishVolumeRequest, deadline: Instant) -> Result<Empty, Status> {
    volume_id::check(&message.volume_id)?;
    let target = below(&driver, "target_path", &message.target_path)?;
    let lock = driver.locks.take(&message.volume_id)?;
    done(driver.operations.ask(Operation::Unpublish(target), Vec::new(), deadline, lock).await.result.map(drop))
}

pub(crate) async fn stats(
    driver: Arc<Driver>,
    message: NodeGetVolumeStatsRequest,
    deadline: Instant,
) -> Result<NodeGetVolumeStatsResponse, Status> {
    volume_id::check(&message.volume_id)?;
    if message.volume_path.is_empty() {
        return Err(Status::invalid_argument("volume_path is missing"));
    }
    // A path that cannot be ours is one where the volume is not.
    let target = below(&driver, "volume_path", &message.volume_path).map_err(|status| Status::not_found(status.message()))?;
    // A server that is dead should not make kubelet wait, and not use up the machine's processes either.
    let deadline = deadline.min(Instant::now() + PATIENCE);
    driver.operations.reap();
    let probe = driver.probes.take(&message.volume_id, deadline).await?;
    let operation = Operation::Usage { target: target.path(), label: message.volume_id };
    match driver.operations.ask_until_gone(operation, deadline, probe).await.result {
        Ok(Answer::Usage(usage)) => {
            Ok(NodeGetVolumeStatsResponse { usage: vec![volume_usage(usage.bytes, BYTES), volume_usage(usage.files, INODES)] })
        }
        Ok(_) => Err(Status::internal("the worker's answer is another one's")),
        Err(failure) => Err(status::of(&failure)),
    }
}

fn volume_usage(room: Room, unit: i32) -> VolumeUsage {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    VolumeUsage { available: number(room.available), total: number(room.total), used: number(room.used), unit }
}

pub(crate) fn capabilities(driver: &Driver, _: Empty) -> Result<GetCapabilitiesResponse, Status> {
    let kinds = [
        node_capability::STAGE_UNSTAGE_VOLUME,
        node_capability::GET_VOLUME_STATS,
        node_capability::SINGLE_NODE_MULTI_WRITER,
        node_capability::VOLUME_MOUNT_GROUP,
    ];
    let health = [node_capability::GET_VOLUME_HEALTH, node_capability::GET_STORAGE_HEALTH];
    let health = health.into_iter().filter(|_| driver.settings.health == Health::Told);
    let capability = |kind| ServiceCapability { rpc: Some(Capability { kind }) };
    Ok(GetCapabilitiesResponse { capabilities: kinds.into_iter().chain(health).map(capability).collect() })
}

pub(crate) fn info(driver: &Driver, _: Empty) -> Result<NodeGetInfoResponse, Status> {
    Ok(NodeGetInfoResponse { node_id: driver.settings.node_id.clone(), max_volumes_per_node: 0 })
}

async fn mount(
    driver: &Driver,
    request: Request,
    target: Below,
    directory: Directory,
    secrets: &HashMap<String, String>,
    deadline: Instant,
) -> Result<Empty, Status> {
    let (names, descriptors) = secrets::hand_over(secrets)?;
    let lock = driver.locks.take(request.label.as_deref().unwrap_or_default())?;
    let left = left_of(deadline);
    let options = labels::for_host(request.options, Selinux::of_this_host())?;
    let request = Request { options, target: target.path(), timeout: left, image_timeout: Some(left), ..request };
    let operation = Operation::MountBelow { request: Box::new(request.clone()), target, directory, secrets: names };
    match driver.operations.ask(operation, descriptors, deadline, lock).await.result {
        // Called again, by a kubelet that knows newer secrets.
        Err(failure) if failure.is_same_volume() && !secrets.is_empty() => refresh(driver, request, secrets, deadline).await,
        Err(failure) if failure.is_same_volume() => Ok(Empty {}),
        result => done(result.map(drop)),
    }
}

/// The client of the mount at the request's target gets these secrets.
async fn refresh(driver: &Driver, request: Request, secrets: &HashMap<String, String>, deadline: Instant) -> Result<Empty, Status> {
    let (names, descriptors) = secrets::hand_over(secrets)?;
    let lock = driver.locks.take(request.label.as_deref().unwrap_or_default())?;
    let options = labels::for_host(request.options, Selinux::of_this_host())?;
    let request = Request { options, timeout: left_of(deadline), ..request };
    let operation = Operation::Refresh { request: Box::new(request), secrets: names };
    let result = driver.operations.ask(operation, descriptors, deadline, lock).await.result;
    // The staged mount is gone.
    done(result.map(drop).map_err(|failure| precondition(failure, &[Kind::NotFound])))
}

fn left_of(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now() + WAY_BACK).max(Duration::from_millis(1))
}

/// What is said of the state that a volume has to be in.
fn precondition(failure: Failure, kinds: &[Kind]) -> Failure {
    if kinds.contains(&failure.kind) { Failure { kind: Kind::Unsupported, ..failure } } else { failure }
}

fn done(result: Result<(), Failure>) -> Result<Empty, Status> {
    result.map(|()| Empty {}).map_err(|failure| status::of(&failure))
}

fn below(driver: &Driver, field: &str, text: &str) -> Result<Below, Status> {
    paths::below(&driver.settings.kubelet_root, field, text)
}
