//! glusterd with one started volume.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use super::Server;
use crate::{Host, command, wait};

/// gluster refuses loopback addresses for a brick's host.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const PORT: u16 = 24007;

#[derive(Debug)]
pub struct Gluster {
    /// Where the volume's files are on the server's side.
    pub brick: PathBuf,
    _server: Server,
}

impl Gluster {
    pub fn start(host: &Host) -> Self {
        for directory in ["/var/lib/glusterd", "/var/log/glusterfs", "/run/gluster"] {
            fs::create_dir_all(directory).unwrap_or_else(|error| panic!("cannot create {directory}: {error}"));
        }
        command::run(&["ip", "address", "add", &format!("{ADDRESS}/32"), "dev", "lo"]);
        let brick = host.directory("brick");
        let server = Server::start(host, "glusterd", &["glusterd", "--no-daemon", "--log-level", "WARNING"]);
        let server = server.wait_until_it_answers(host, SocketAddr::from((ADDRESS, PORT)));
        wait::until("glusterd to take commands", || gluster(&["list"]).ok());
        for arguments in [
            &["create", "v0", &format!("{ADDRESS}:{}", brick.display()), "force"][..],
            &["set", "v0", "nfs.disable", "on"],
            &["start", "v0"],
        ] {
            gluster(arguments).unwrap_or_else(|said| panic!("gluster volume {arguments:?}: {said}"));
        }
        host.settle();
        Self { brick, _server: server }
    }

    pub fn source(&self) -> String {
        format!("{ADDRESS}:/v0")
    }
}

fn gluster(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("gluster");
    command.args(["--mode=script", "volume"]).args(arguments);
    let ran = command::finish(command);
    if ran.code == Some(0) { Ok(()) } else { Err(ran.stdout + &ran.stderr) }
}
