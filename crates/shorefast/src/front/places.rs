//! Where one installation keeps its files: the same for every front, from flags, environment and defaults.

use std::path::PathBuf;

use clap::Args;
use shorefast_broker::policy::Owner;
use shorefast_engine::configuration::{self, ClientImage, Configuration};
use shorefast_engine::installation::{ROOT, RUN_DIR};
use shorefast_engine::{Error, Host, Installation};
use shorefast_image::Store;
use shorefast_image::store::Network;

use crate::front::enter_host;
use crate::front::image_limits::LimitArguments;
use crate::front::progress;
use crate::report;

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Places {
    /// Where records of live mounts are kept
    #[arg(long, global = true, value_name = "DIR", env = "SHOREFAST_RUN", default_value = RUN_DIR)]
    pub run_dir: PathBuf,
    /// Where unpacked images are kept
    #[arg(long, global = true, value_name = "DIR", env = "SHOREFAST_ROOT", default_value = ROOT)]
    pub root: PathBuf,
    /// Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several separated by colons, of which
    /// later ones take precedence
    #[arg(long, global = true, value_name = "DIR[:DIR…]", env = "SHOREFAST_CLIENTS", default_value = configuration::DIRECTORY, value_delimiter = ':')]
    pub clients: Vec<PathBuf>,
    /// Use this image for a client, given by its name or a type; takes precedence over any file
    #[arg(long, global = true, value_name = "CLIENT=IMAGE", env = "SHOREFAST_CLIENT_IMAGE", value_delimiter = ' ')]
    pub client_image: Vec<ClientImage>,
    /// This is a container, and DIR its view of the host's /proc: do everything on the host
    // Removed before anything else is parsed (`front::enter_host`); listed here for the help text.
    #[arg(long, global = true, value_name = "DIR", env = enter_host::VARIABLE)]
    pub host_proc: Option<PathBuf>,
    #[command(flatten)]
    pub limits: LimitArguments,
}

/// The defaults.
impl Default for Places {
    fn default() -> Self {
        Self {
            run_dir: RUN_DIR.into(),
            root: ROOT.into(),
            clients: vec![configuration::DIRECTORY.into()],
            client_image: Vec::new(),
            host_proc: None,
            limits: LimitArguments::default(),
        }
    }
}

impl Places {
    pub fn installation(&self, network: Network) -> Installation {
        Installation {
            run_dir: self.run_dir.clone(),
            root: self.root.clone(),
            clients: self.clients.clone(),
            client_images: self.client_image.clone(),
            limits: self.limits.limits(),
            network,
        }
    }

    pub fn store(&self) -> Store {
        self.installation(Network::Allowed).store(progress::for_stderr())
    }

    /// Reads the configuration, and prints its problems on stderr.
    pub fn configuration(&self) -> Result<Configuration, Error> {
        let configuration = self.installation(Network::Allowed).configuration()?;
        report::warnings(&configuration.problems);
        Ok(configuration)
    }

    pub fn host(&self, network: Network) -> Host {
        self.installation(network).host(progress::for_stderr())
    }
}

/// The calling user, as the owner of the mount.
pub fn owner() -> Owner {
    Owner { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() }
}
