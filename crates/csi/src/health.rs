//! How volumes and their servers are, as far as the engine knows: no server is asked anything. Kubernetes 1.37 and later ask for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shorefast_engine::unserved::{Trouble, Unserved};
use shorefast_worker::{Answer, Operation};
use tonic::Status;

use crate::driver::{Driver, Health};
use crate::messages::{
    DEGRADED, HealthStatus, INACCESSIBLE, NodeGetStorageHealthRequest, NodeGetStorageHealthResponse, NodeGetVolumeHealthRequest,
    NodeGetVolumeHealthResponse, STORAGE_DEGRADED, STORAGE_UNREACHABLE, VolumeHealth,
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
    let health = VolumeHealth { volume_id: message.volume_id, health_statuses: places.iter().map(of_volume).collect() };
    Ok(NodeGetVolumeHealthResponse { volume_health: Some(health) })
}

/// All volumes of this machine: what serves them is only as well as they are.
pub(crate) async fn storage(
    driver: Arc<Driver>,
    _: NodeGetStorageHealthRequest,
    deadline: Instant,
) -> Result<NodeGetStorageHealthResponse, Status> {
    require_switch(&driver)?;
    Ok(NodeGetStorageHealthResponse { backend_health: of_storage(&unserved(&driver, None, deadline).await?) })
}

struct Told {
    volume: i32,
    storage: i32,
    reason: &'static str,
    /// What the clients have done.
    text: &'static str,
}

fn told(trouble: Trouble) -> Told {
    let (volume, storage, reason, text) = match trouble {
        Trouble::Ended => (INACCESSIBLE, STORAGE_DEGRADED, "ClientEnded", "the client has ended"),
        Trouble::Failed => (INACCESSIBLE, STORAGE_DEGRADED, "HealingFailed", "the client has ended, and starting another one was given up"),
        Trouble::Hung => (INACCESSIBLE, STORAGE_UNREACHABLE, "ClientHangs", "the client or its server answers nothing"),
        Trouble::Healing => (DEGRADED, STORAGE_DEGRADED, "Healing", "the client has ended, and another one is being started"),
        Trouble::Degraded => (DEGRADED, STORAGE_DEGRADED, "PartlyHealed", "some users still have the mount of a client that has ended"),
    };
    Told { volume, storage, reason, text }
}

fn of_volume(one: &Unserved) -> HealthStatus {
    let Told { volume, reason, text, .. } = told(one.trouble);
    HealthStatus { status: volume, reason: reason.to_owned(), message: format!("{}: {text}", one.place.display()) }
}

/// An entry for each kind of trouble.
fn of_storage(all: &[Unserved]) -> Vec<HealthStatus> {
    let mut places = BTreeMap::<Trouble, Vec<String>>::new();
    for one in all {
        places.entry(one.trouble).or_default().push(one.place.display().to_string());
    }
    let entry = |(trouble, places): (Trouble, Vec<String>)| {
        let Told { storage, reason, text, .. } = told(trouble);
        let named = places[..places.len().min(NAMED)].join(", ");
        HealthStatus { status: storage, reason: reason.to_owned(), message: format!("{} mounts: {text}: {named}", places.len()) }
    };
    places.into_iter().map(entry).collect()
}

/// In a message.
const NAMED: usize = 5;

async fn unserved(driver: &Driver, label: Option<String>, deadline: Instant) -> Result<Vec<Unserved>, Status> {
    let operation = Operation::Unserved { label };
    match driver.operations.ask(operation, Vec::new(), deadline.min(Instant::now() + SOON), ()).await.result {
        Ok(Answer::Unserved(places)) => Ok(places),
        Ok(_) => Err(Status::internal("the worker's answer is another one's")),
        Err(failure) => Err(status::of(&failure)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trouble_is_told() {
        let rows = [
            (Trouble::Ended, INACCESSIBLE, STORAGE_DEGRADED, "ClientEnded"),
            (Trouble::Failed, INACCESSIBLE, STORAGE_DEGRADED, "HealingFailed"),
            (Trouble::Hung, INACCESSIBLE, STORAGE_UNREACHABLE, "ClientHangs"),
            (Trouble::Healing, DEGRADED, STORAGE_DEGRADED, "Healing"),
            (Trouble::Degraded, DEGRADED, STORAGE_DEGRADED, "PartlyHealed"),
        ];
        for (trouble, of_the_volume, of_the_storage, reason) in rows {
            let place = |name: &str| Unserved { place: name.into(), trouble };
            let volume = of_volume(&place("/a"));
            assert_eq!((volume.status, volume.reason.as_str()), (of_the_volume, reason));
            assert!(volume.message.contains("/a"), "{volume:?}");
            let storage = of_storage(&[place("/a"), place("/b")]);
            assert_eq!(storage.len(), 1);
            assert_eq!((storage[0].status, storage[0].reason.as_str()), (of_the_storage, reason));
            assert!(storage[0].message.contains("2 mounts") && storage[0].message.contains("/a, /b"), "{storage:?}");
        }
        let different = [Trouble::Healing, Trouble::Hung].map(|trouble| Unserved { place: "/x".into(), trouble });
        assert_eq!(of_storage(&different).len(), 2);
        assert_eq!(of_storage(&[]), []);
    }
}
