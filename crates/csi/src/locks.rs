//! One operation per volume at a time: the next one is told to come again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use tonic::Status;

#[derive(Clone, Debug, Default)]
pub struct Locks(Arc<Mutex<HashSet<String>>>);

/// Dropped: the volume is free.
#[derive(Debug)]
pub struct Lock {
    locks: Locks,
    volume: String,
}

impl Locks {
    pub fn take(&self, volume: &str) -> Result<Lock, Status> {
        let mut taken = self.0.lock().map_err(|_| Status::internal("a thread has failed: restart the driver"))?;
        if taken.insert(volume.to_owned()) {
            Ok(Lock { locks: self.clone(), volume: volume.to_owned() })
        } else {
            Err(Status::aborted("another operation for this volume is under way"))
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Ok(mut taken) = self.locks.0.lock() {
            taken.remove(&self.volume);
        }
    }
}
