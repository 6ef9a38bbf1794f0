//! Waiting until nothing is left of the run before: the next one must not pay for it.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use shorefast_tests::processes::{Process, on_this_network};

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(2);
/// The kernel takes a superblock apart after its last process is gone.
const AFTERWARDS: Duration = Duration::from_millis(10);

/// The processes that were there before: servers.
#[derive(Debug)]
pub(super) struct Calm(BTreeSet<Process>);

impl Calm {
    pub(super) fn now() -> Self {
        Self(on_this_network().into_iter().collect())
    }

    pub(super) fn wait(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let newcomers = self.newcomers();
            if newcomers.is_empty() {
                thread::sleep(AFTERWARDS);
                return Ok(());
            }
            if Instant::now() > deadline {
                let names: Vec<_> = newcomers.iter().map(Process::describe).collect();
                bail!("still running after the unmount: {}", names.join(", "));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Processes that were started since, and still run: a part has a network of its own, so no others are among them.
    pub(super) fn newcomers(&self) -> Vec<Process> {
        on_this_network().into_iter().filter(|process| !self.0.contains(process)).collect()
    }
}
