//! Any program that listens: for servers that only one test needs.

use std::net::SocketAddr;

use super::Server;
use crate::Host;

#[derive(Debug)]
pub struct Program {
    _server: Server,
}

impl Program {
    pub fn start(host: &Host, name: &str, words: &[&str], address: SocketAddr) -> Self {
        Self { _server: Server::start(host, name, words).wait_until_it_answers(host, address) }
    }
}
