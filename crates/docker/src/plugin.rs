//! The plugin's state, shared by all calls.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use shorefast_engine::records::Records;
use shorefast_serve::Operations;
use tokio::sync::{Mutex as Turns, OwnedMutexGuard};

use crate::error::Error;
use crate::volumes::{Absent, Locked, Volumes};

#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name without `.sock` is the driver's name in `docker volume create -d`.
    pub socket: PathBuf,
    /// The directory where volumes are stored and mounted.
    pub directory: PathBuf,
    /// Where the engine keeps its records.
    pub run_dir: PathBuf,
}

#[derive(Debug)]
pub struct Plugin {
    pub(crate) volumes: Volumes,
    pub(crate) operations: Operations,
    /// Only read: most calls are answered from a record and the kernel's tables, without a worker.
    pub(crate) records: Records,
    /// The requests that wait for a volume, in order of arrival. The lock on its directory is for other processes: an old server may still be at
    /// work when its successor starts.
    turns: Mutex<HashMap<String, Weak<Turns<()>>>>,
}

/// A volume that only this request changes.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) locked: Locked,
    _turn: OwnedMutexGuard<()>,
}

/// The interval between two attempts to get a lock that another process holds.
const PAUSE: Duration = Duration::from_millis(5);

impl Plugin {
    pub(crate) fn new(settings: &Settings, operations: Operations) -> Self {
        let (volumes, records) = (Volumes::below(settings.directory.clone()), Records::at(&settings.run_dir));
        Self { volumes, operations, records, turns: Mutex::default() }
    }

    pub(crate) async fn hold(&self, name: &str, absent: Absent, deadline: Instant) -> Result<Arc<Held>, Error> {
        let busy = || Error::Busy(name.to_owned());
        let turns = self.turns_of(name)?;
        let turn = tokio::time::timeout_at(deadline.into(), turns.lock_owned()).await.map_err(|_| busy())?;
        loop {
            let (volumes, name) = (self.volumes.clone(), name.to_owned());
            if let Some(locked) = blocking(move || volumes.try_lock(&name, absent)).await? {
                return Ok(Arc::new(Held { locked, _turn: turn }));
            }
            if Instant::now() >= deadline {
                return Err(busy());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn turns_of(&self, name: &str) -> Result<Arc<Turns<()>>, Error> {
        let mut all = self.turns.lock().map_err(|error| Error::Internal(error.to_string()))?;
        all.retain(|_, turns| turns.strong_count() > 0);
        let known = all.get(name).and_then(Weak::upgrade);
        Ok(known.unwrap_or_else(|| {
            let turns = Arc::default();
            all.insert(name.to_owned(), Arc::downgrade(&turns));
            turns
        }))
    }
}

/// Reads and writes files outside of the thread that answers.
pub(crate) async fn blocking<T: Send + 'static>(act: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(act).await.map_err(|error| Error::Internal(error.to_string()))?
}
