//! Where one installation keeps its things: the same for every front, from flags, environment and defaults.

use std::path::PathBuf;

use clap::Args;
use shorefast_broker::policy::Owner;
use shorefast_engine::{Host, client};
use shorefast_image::Store;
use shorefast_image::store::Network;

use crate::front::image::LimitArguments;
use crate::front::progress;

#[derive(Debug, Args)]
pub struct Places {
    /// Where records of live mounts are kept
    #[arg(long, global = true, value_name = "DIR", env = "SHOREFAST_RUN", default_value = "/run/shorefast")]
    pub run_dir: PathBuf,
    /// Where unpacked images are kept
    #[arg(long, global = true, value_name = "DIR", env = "SHOREFAST_ROOT", default_value = "/var/lib/shorefast")]
    pub root: PathBuf,
    /// Where client definitions are read from
    #[arg(long, global = true, value_name = "DIR", env = "SHOREFAST_CLIENTS", default_value = client::DIRECTORY)]
    pub clients: PathBuf,
    #[command(flatten)]
    pub limits: LimitArguments,
}

impl Places {
    pub fn store(&self) -> Store {
        Store::at(&self.root).with_limits(self.limits.limits()).with_progress(progress::for_stderr())
    }

    pub fn host(&self, network: Network) -> Host {
        let run_dir = std::path::absolute(&self.run_dir).unwrap_or_else(|_| self.run_dir.clone());
        Host { run_dir, images: self.store(), network }
    }
}

/// Who calls: the mount is theirs.
pub fn owner() -> Owner {
    Owner { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() }
}
