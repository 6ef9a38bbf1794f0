//! Why a server cannot start.

use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot start the runtime")]
    Runtime(#[source] std::io::Error),
    #[error("cannot listen at {path:?}")]
    Listen { path: PathBuf, source: std::io::Error },
    #[error("cannot listen at {address}")]
    Address { address: SocketAddr, source: std::io::Error },
    #[error("cannot wait for signals")]
    Signals(#[source] std::io::Error),
}
