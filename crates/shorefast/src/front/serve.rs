//! `shorefast serve`: In: what to serve, and where. Out: an exit code, after SIGTERM.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use shorefast_csi::driver::{self, Health, Registration, Settings};
use shorefast_engine::{Error, error};
use shorefast_image::store::Network;
use shorefast_serve::{Operations, Options};
use shorefast_worker::Workers;

use crate::front::places::Places;
use crate::report;

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").args(["csi", "docker"]).required(true).multiple(true))]
pub struct ServeArguments {
    /// A CSI driver, for Kubernetes
    #[arg(long)]
    csi: bool,
    /// A volume plugin, for Docker and Podman
    #[arg(long)]
    docker: bool,
    /// kubelet's --root-dir; nothing outside it is touched
    #[arg(long, value_name = "DIR", env = "KUBELET_ROOT", default_value = "/var/lib/kubelet")]
    kubelet_root: PathBuf,
    /// The name of the driver in volumes and storage classes
    #[arg(long, value_name = "NAME", default_value = "csi.shorefast.dev", value_parser = driver_name)]
    driver_name: String,
    /// The name of this machine in the cluster [default: the host's name]
    #[arg(long, value_name = "NAME", env = "NODE_ID")]
    node_id: Option<String>,
    /// The driver's socket [default: plugins/NAME/csi.sock below kubelet's root]
    #[arg(long, value_name = "PATH")]
    csi_socket: Option<PathBuf>,
    /// Do not register with kubelet: for a controller, which serves no machine
    #[arg(long)]
    no_registration: bool,
    /// Report the health of volumes to kubelet (Kubernetes 1.37 and later, feature gate CSIVolumeHealth)
    #[arg(long)]
    volume_health: bool,
    /// The volume plugin's socket; its name without .sock is the driver's name
    #[arg(long, value_name = "PATH", default_value = "/run/docker/plugins/shorefast.sock")]
    docker_socket: PathBuf,
    /// Serve /healthz and /metrics over HTTP at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen_metrics: Option<SocketAddr>,
}

fn driver_name(text: &str) -> Result<String, String> {
    if driver::is_name(text) {
        Ok(text.to_owned())
    } else {
        Err("the name of a driver is like that of a domain, at most 63 characters".into())
    }
}

#[inline(never)]
pub fn run(arguments: ServeArguments, places: &Places) -> Result<ExitCode, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let failed = |error: &dyn std::error::Error| {
        report::say(&format!("shorefast serve: {}", error::chain(error, |error| error.to_string())));
        Ok(ExitCode::FAILURE)
    };
    let workers = match Workers::of_this_binary(places.installation(Network::Allowed)) {
        Ok(workers) => workers,
        Err(error) => return failed(&error),
    };
    let operations = Operations::new(workers);
    let mut endpoints = Vec::new();
    if arguments.csi {
        endpoints.extend(shorefast_csi::endpoints(csi(&arguments), operations.clone()));
    }
    if arguments.docker {
        // Docker wants a mount's full path.
        let full = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (directory, run_dir) = (full(&places.root).join("docker"), full(&places.run_dir));
        let settings = shorefast_docker::Settings { socket: arguments.docker_socket, directory, run_dir };
        endpoints.push(shorefast_docker::endpoint(settings, operations.clone()));
    }
    match shorefast_serve::run(Options { endpoints, metrics: arguments.listen_metrics, operations }) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => failed(&error),
    }
}

fn csi(arguments: &ServeArguments) -> Settings {
    let kubelet_root = std::path::absolute(&arguments.kubelet_root).unwrap_or_else(|_| arguments.kubelet_root.clone());
    Settings {
        // Paths are compared with it as text.
        kubelet_root: kubelet_root.components().collect(),
        driver_name: arguments.driver_name.clone(),
        node_id: arguments.node_id.clone().unwrap_or_else(host_name),
        socket: arguments.csi_socket.clone(),
        registration: if arguments.no_registration { Registration::None } else { Registration::WithKubelet },
        health: if arguments.volume_health { Health::Told } else { Health::NotTold },
        say: report::say,
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
