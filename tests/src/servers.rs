//! Real servers on the test's own network. Each is a guard: dropped, the server is gone. Ports are fixed, since no two tests share
//! a network.

mod ceph;
mod certificate;
mod gluster;
mod http;
mod meddler;
pub mod nfsd;
mod program;
pub mod realm;
pub mod registry;
mod s3;
pub mod samba;
mod sshd;
pub mod tokens;
mod webdav;

pub use ceph::Ceph;
pub use gluster::Gluster;
pub use meddler::{Meddler, Mischief};
pub use nfsd::Nfsd;
pub use program::Program;
pub use realm::Realm;
pub use registry::Registry;
pub use s3::S3;
pub use samba::Samba;
pub use sshd::Sshd;
pub use tokens::Tokens;
pub use webdav::Webdav;

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};

use crate::{Host, wait};

/// A server process with a log that is shown if it does not come up.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    pub(crate) fn start(host: &Host, name: &str, words: &[&str]) -> Self {
        Self::start_with(host, name, words, |_| ())
    }

    fn start_with(host: &Host, name: &str, words: &[&str], adjust: impl FnOnce(&mut Command)) -> Self {
        let log = host.path(format!("{name}.log"));
        let output = File::create(&log).expect("cannot create a log file");
        // The servers of a killed test end, too: the kernel kills them when the test's thread ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(words);
        command.stderr(output.try_clone().expect("a file can be cloned")).stdout(output);
        adjust(&mut command);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        Self { child, log }
    }

    fn wait_until_it_answers(mut self, host: &Host, address: SocketAddr) -> Self {
        let answer = wait::within(wait::PATIENCE, || {
            let ended = self.child.try_wait().expect("a child can be asked").is_some();
            (ended || TcpStream::connect(address).is_ok()).then_some(!ended)
        });
        assert_eq!(answer, Some(true), "no server at {address}: {}", fs::read_to_string(&self.log).unwrap_or_default());
        host.settle();
        self
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
