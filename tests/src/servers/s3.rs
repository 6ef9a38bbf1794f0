//! An S3 server (moto) with one bucket. It takes any key.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::{Server, http};
use crate::{Host, client};

const PORT: u16 = 9000;
const BUCKET: &str = "bucket";

#[derive(Debug)]
pub struct S3 {
    pub address: SocketAddr,
    /// Credentials in s3fs's format, readable by root alone.
    pub password_file: PathBuf,
    _server: Server,
}

impl S3 {
    pub fn start(host: &Host) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        let words = ["python3", "-m", "moto.server", "-H", "127.0.0.1", "-p", &PORT.to_string()];
        let server = Server::start_with(host, "moto", &words, |command| {
            command.env("PYTHONPATH", client::cache().join("moto")).env("PYTHONDONTWRITEBYTECODE", "1");
        });
        let server = server.wait_until_it_answers(host, address);
        http::put(address, &format!("/{BUCKET}"), b"").expect("cannot create a bucket");
        let password_file = host.file("passwd-s3fs", "key-id:secret-key\n");
        let only_owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&password_file, only_owner).expect("cannot protect the password file");
        Self { address, password_file, _server: server }
    }

    pub fn source(&self) -> &'static str {
        BUCKET
    }

    pub fn put(&self, key: &str, content: &[u8]) {
        http::put(self.address, &format!("/{BUCKET}/{key}"), content).expect("cannot store an object");
    }

    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        http::get(self.address, &format!("/{BUCKET}/{key}")).ok()
    }
}
