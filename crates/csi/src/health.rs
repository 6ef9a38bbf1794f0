//! How volumes and their servers are, as far as the engine knows: no server is asked anything. Kubernetes 1.37 and later ask for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use shorefast_worker::{Answer, Operation};
use tonic::Status;

use crate::driver::{Driver, Health};
use crate::messages::{
    HealthStatus, INACCESSIBLE, NodeGetStorageHealthRequest, NodeGetStorageHealthResponse, NodeGetVolumeHealthRequest,
    NodeGetVolumeHealthResponse, STORAGE_DEGRADED, VolumeHealth,
};
use crate::{status, volume_id};

const SOON: Duration = Duration::from_secs(5);

fn require_switch(driver: &Driver) -> Result<(), Status> {
    match driver.settings.health {
        Health::Told => Ok(()),
        Health::NotTold => Err(Status::unimplemented("health is not switched on (--volume-health)")),
    }
}

/// What the engine knows of the volume's clients: no server is asked. One that was never mounted here is well.
pub(crate) async fn volume(
    driver: Arc<Driver>,
    message: NodeGetVolumeHealthRequest,
    deadline: Instant,
) -> Result<NodeGetVolumeHealthResponse, Status> {
    volume_id::check(&message.volume_id)?;
    require_switch(&driver)?;
    let places = unserved(&driver, Some(message.volume_id.clone()), deadline).await?;
    let ended = |place: String| HealthStatus {
        status: INACCESSIBLE,
        reason: "ClientEnded".to_owned(),
        message: format!("the client of the mount at {place} has ended"),
    };
    let health = VolumeHealth { volume_id: message.volume_id, health_statuses: places.into_iter().map(ended).collect() };
    Ok(NodeGetVolumeHealthResponse { volume_health: Some(health) })
}

/// All volumes of this machine: with one whose client has ended, what serves them is degraded.
pub(crate) async fn storage(
    driver: Arc<Driver>,
    _: NodeGetStorageHealthRequest,
    deadline: Instant,
) -> Result<NodeGetStorageHealthResponse, Status> {
    require_switch(&driver)?;
    let places = unserved(&driver, None, deadline).await?;
    let degraded = || HealthStatus {
        status: STORAGE_DEGRADED,
        reason: "ClientEnded".to_owned(),
        message: format!("the clients of {} mounts have ended: {}", places.len(), places[..places.len().min(NAMED)].join(", ")),
    };
    let backend_health = (!places.is_empty()).then(degraded).into_iter().collect();
    Ok(NodeGetStorageHealthResponse { backend_health })
}

/// In a message.
const NAMED: usize = 5;

async fn unserved(driver: &Driver, label: Option<String>, deadline: Instant) -> Result<Vec<String>, Status> {
    let operation = Operation::Unserved { label };
    match driver.operations.ask(operation, Vec::new(), deadline.min(Instant::now() + SOON), ()).await.result {
        Ok(Answer::Unserved(places)) => Ok(places),
        Ok(_) => Err(Status::internal("the worker's answer is another one's")),
        Err(failure) => Err(status::of(&failure)),
    }
}
