//! Where one installation keeps its things: the same for every front, from flags, environment and defaults.

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
pub struct Places {
    /// Where records of live mounts are kept
    #[arg(long, global = true, value_name = "DIR", env = "SHOREFAST_RUN", default_value = RUN_DIR)]
    pub run_dir: PathBuf,
    /// Where unpacked images are kept
    #[arg(long, global = true, value_name = "DIR", env = "SHOREFAST_ROOT", default_value = ROOT)]
    pub root: PathBuf,
    /// Where client definitions are read from: a directory, which may be a mounted ConfigMap, or several with colons between
    /// them, of which later ones count more
    #[arg(long, global = true, value_name = "DIR[:DIR…]", env = "SHOREFAST_CLIENTS", default_value = configuration::DIRECTORY, value_delimiter = ':')]
    pub clients: Vec<PathBuf>,
    /// Use this image for a client, named by its name or a type: counts more than any file
    #[arg(long, global = true, value_name = "CLIENT=IMAGE", env = "SHOREFAST_CLIENT_IMAGE", value_delimiter = ' ')]
    pub client_image: Vec<ClientImage>,
    /// This is a container, and DIR its view of the host's /proc: do everything on the host
    // Taken out before anything else is read (`front::outside`); here for whoever asks for help.
    #[arg(long, global = true, value_name = "DIR", env = enter_host::VARIABLE)]
    pub host_proc: Option<PathBuf>,
    #[command(flatten)]
    pub limits: LimitArguments,
}

/// What counts if nobody says anything.
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

    /// What is configured, and on stderr what is wrong with it.
    pub fn configuration(&self) -> Result<Configuration, Error> {
        let configuration = self.installation(Network::Allowed).configuration()?;
        report::warnings(&configuration.problems);
        Ok(configuration)
    }

    pub fn host(&self, network: Network) -> Host {
        self.installation(network).host(progress::for_stderr())
    }
}

/// Who calls: the mount is theirs.
pub fn owner() -> Owner {
    Owner { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() }
}
