//! What can be served: a protocol on a unix socket. CSI is two of these, a Docker volume plugin one.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::sync::watch;

pub struct Endpoint {
    /// Names the socket among those that systemd passes (`FileDescriptorName=`).
    pub name: &'static str,
    pub socket: PathBuf,
    pub protocol: Arc<dyn Protocol>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Endpoint").field("name", &self.name).field("socket", &self.socket).finish_non_exhaustive()
    }
}

pub type Served = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Speaks on one accepted connection until that ends. Dropped: requests under way are cancelled.
pub trait Protocol: Send + Sync {
    /// Who serves more than one request on a connection closes it when the server ends, after the answers that are owed.
    fn serve(&self, connection: UnixStream, ending: Ending) -> Served;
}

/// That the server is about to end.
#[derive(Clone, Debug)]
pub struct Ending(pub(crate) watch::Receiver<bool>);

impl Ending {
    pub async fn begun(&mut self) {
        // The sender lives as long as the server does.
        let _ = self.0.wait_for(|ending| *ending).await;
    }
}
