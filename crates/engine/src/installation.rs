//! Where one installation keeps its things, as a value: the same for a command line and for a process that is asked by another.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shorefast_image::store::Network;
use shorefast_image::{Limits, Progress, Store};

use crate::configuration::{self, ClientImage, Configuration, Sources};
use crate::error::Error;
use crate::{Host, images};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Installation {
    /// Records of live mounts.
    pub run_dir: PathBuf,
    /// Images.
    pub root: PathBuf,
    /// Client definitions, those that count more last.
    pub clients: Vec<PathBuf>,
    /// Images for clients that count more than any definition.
    pub client_images: Vec<ClientImage>,
    pub limits: Limits,
    pub network: Network,
}

impl Default for Installation {
    fn default() -> Self {
        Self {
            run_dir: RUN_DIR.into(),
            root: ROOT.into(),
            clients: vec![configuration::DIRECTORY.into()],
            client_images: Vec::new(),
            limits: Limits::default(),
            network: Network::Allowed,
        }
    }
}

pub const RUN_DIR: &str = "/run/shorefast";
pub const ROOT: &str = "/var/lib/shorefast";

impl Installation {
    pub fn store(&self, progress: Arc<dyn Progress>) -> Store {
        images::with_derived(Store::at(&self.root)).with_limits(self.limits).with_progress(progress)
    }

    pub fn host(&self, progress: Arc<dyn Progress>) -> Host {
        let run_dir = std::path::absolute(&self.run_dir).unwrap_or_else(|_| self.run_dir.clone());
        Host { run_dir, images: self.store(progress), network: self.network }
    }

    /// With what is wrong in it, beside what is in force.
    pub fn configuration(&self) -> Result<Configuration, Error> {
        let last_good = Some(self.root.join("configuration"));
        configuration::read(&Sources { directories: self.clients.clone(), images: self.client_images.clone(), last_good })
    }
}
