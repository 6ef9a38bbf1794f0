//! A WebDAV server on a directory: rclone's.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::Server;
use crate::Host;

const PORT: u16 = 9001;

#[derive(Debug)]
pub struct Webdav {
    /// The directory that clients mount.
    pub share: PathBuf,
    _server: Server,
}

impl Webdav {
    pub fn start(host: &Host) -> Self {
        let share = host.directory("share");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        let directory = share.to_str().expect("our own paths are text");
        let words = ["rclone", "serve", "webdav", "--dir-cache-time", "0s", "--addr", &address.to_string(), directory];
        let server = Server::start(host, "webdav", &words);
        let server = server.wait_until_it_answers(host, address);
        Self { share, _server: server }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{PORT}/")
    }
}
