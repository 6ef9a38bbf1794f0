//! Questions to the servers of volumes, one at a time for each volume. A process that asks a server that does not answer cannot be killed until that
//! does, so while one such process is left, no other is started.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio::sync::OwnedMutexGuard;
use tonic::Status;

/// How long a server may take; whoever asks after that is told at once.
pub const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub struct Probes(Mutex<HashMap<String, Weak<Volume>>>);

#[derive(Debug, Default)]
struct Volume {
    turn: Arc<tokio::sync::Mutex<()>>,
    /// When the question that is under way was asked.
    since: Mutex<Option<Instant>>,
}

/// Dropped: the next one may ask.
#[derive(Debug)]
pub struct Probe {
    volume: Arc<Volume>,
    _turn: OwnedMutexGuard<()>,
}

impl Probes {
    /// Waits for its turn, but not for a question that is overdue.
    pub async fn take(&self, volume: &str, deadline: Instant) -> Result<Probe, Status> {
        let volume = self.volume(volume)?;
        if volume.waits_for() > PATIENCE {
            return Err(volume.unanswered());
        }
        let turn = tokio::time::timeout_at(deadline.into(), Arc::clone(&volume.turn).lock_owned()).await;
        let turn = turn.map_err(|_| volume.unanswered())?;
        volume.set(Some(Instant::now()));
        Ok(Probe { volume, _turn: turn })
    }

    fn volume(&self, name: &str) -> Result<Arc<Volume>, Status> {
        let mut volumes = self.0.lock().map_err(|_| Status::internal("a thread has failed: restart the driver"))?;
        if let Some(volume) = volumes.get(name).and_then(Weak::upgrade) {
            return Ok(volume);
        }
        volumes.retain(|_, volume| volume.strong_count() > 0);
        let volume = Arc::default();
        volumes.insert(name.to_owned(), Arc::downgrade(&volume));
        Ok(volume)
    }
}

impl Volume {
    fn waits_for(&self) -> Duration {
        self.since.lock().ok().and_then(|since| *since).map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn set(&self, since: Option<Instant>) {
        if let Ok(mut own) = self.since.lock() {
            *own = since;
        }
    }

    /// The specification's code for a volume that another call is pending for.
    fn unanswered(&self) -> Status {
        Status::aborted(format!("the volume's server has not answered an earlier question for {} s", self.waits_for().as_secs()))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.volume.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::Builder;

    #[test]
    fn one_question_at_a_time_and_none_behind_one_that_is_overdue() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let probes = Probes::default();
            let soon = || Instant::now() + Duration::from_millis(20);
            let first = probes.take("v", soon()).await.unwrap();
            drop(probes.take("other", soon()).await.unwrap());
            assert_eq!(probes.take("v", soon()).await.unwrap_err().code(), tonic::Code::Aborted);
            drop(first);
            let second = probes.take("v", soon()).await.unwrap();
            second.volume.set(Instant::now().checked_sub(PATIENCE * 2));
            let asked = Instant::now();
            let late = probes.take("v", asked + Duration::from_secs(600)).await.unwrap_err();
            assert!(late.message().contains("for 10 s") && asked.elapsed() < Duration::from_secs(60), "{late}");
            drop(second);
            drop(probes.take("v", soon()).await.unwrap());
            // Nothing is kept of volumes that nobody asks about.
            drop(probes.take("last", soon()).await.unwrap());
            assert_eq!(probes.0.lock().unwrap().len(), 1);
        });
    }
}
