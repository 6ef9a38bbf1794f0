//! glusterd with one started volume.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{XattrFlags, setxattr};

use super::Server;
use crate::path::text;
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
        skip_geo_replication(host);
        let brick = brick(host);
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

/// While it starts, glusterd runs a Python program a dozen times to configure what we do not use: seconds, or a minute in a guest.
fn skip_geo_replication(host: &Host) {
    let program = "/usr/lib/x86_64-linux-gnu/glusterfs/gsyncd";
    if Path::new(program).exists() {
        let stub = host.file("gsyncd", "#!/bin/sh\necho gsyncd.py 0.0.1\n");
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).expect("cannot make a script executable");
        command::run(&["mount", "--bind", text(&stub), program]);
    }
}

/// A brick needs extended attributes for users, which tmpfs has since Linux 6.6.
fn brick(host: &Host) -> PathBuf {
    let brick = host.directory("brick");
    if setxattr(&brick, "user.probe", b"1", XattrFlags::empty()).is_err() {
        let disk = host.file("brick.ext4", "");
        command::run(&["truncate", "--size=64M", text(&disk)]);
        command::run(&["mkfs.ext4", "-q", text(&disk)]);
        command::run(&["mount", "-o", "loop", text(&disk), text(&brick)]);
    }
    let volume = brick.join("volume");
    fs::create_dir(&volume).expect("cannot create the brick's directory");
    volume
}

fn gluster(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("gluster");
    command.args(["--mode=script", "volume"]).args(arguments);
    let ran = command::finish(command);
    if ran.code == Some(0) { Ok(()) } else { Err(ran.stdout + &ran.stderr) }
}
