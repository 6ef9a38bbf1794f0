//! A WebDAV server on a directory: rclone's.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::{Server, certificate};
use crate::Host;

const PORT: u16 = 9001;

#[derive(Debug)]
pub struct Webdav {
    /// The directory that clients mount.
    pub share: PathBuf,
    port: u16,
    _server: Server,
}

impl Webdav {
    pub fn start(host: &Host) -> Self {
        Self::serve(host, PORT, &[])
    }

    /// Which asks for this login: `me`, `right`.
    pub fn with_login(host: &Host) -> Self {
        Self::serve(host, PORT + 1, &["--user", "me", "--pass", "right"])
    }

    /// With a certificate of a CA that no program trusts by default.
    pub fn with_tls(host: &Host) -> Self {
        let place = host.directory("webdav-tls");
        certificate::certify(&place);
        let path = |name: &str| place.join(name).display().to_string();
        Self::serve(host, PORT + 2, &["--cert", &path("cert.pem"), "--key", &path("key.pem")])
    }

    fn serve(host: &Host, port: u16, more: &[&str]) -> Self {
        let share = host.directory("share");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let directory = share.to_str().expect("our own paths are text");
        let addressed = address.to_string();
        let words = [&["rclone", "serve", "webdav", "--dir-cache-time", "0s", "--addr", &addressed], more, &[directory]].concat();
        let server = Server::start(host, &format!("webdav-{port}"), &words);
        let server = server.wait_until_it_answers(host, address);
        Self { share, port, _server: server }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}
