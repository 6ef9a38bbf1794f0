//! The plugin's socket.

use std::sync::Arc;

use shorefast_serve::service::Served;
use shorefast_serve::{Ending, Endpoint, Operations, Protocol};
use tokio::net::UnixStream;

use crate::plugin::{Plugin, Settings};
use crate::{answer, http};

pub fn endpoint(settings: Settings, operations: Operations) -> Endpoint {
    let plugin = Arc::new(Plugin::new(&settings, operations));
    Endpoint { name: "docker", socket: settings.socket, protocol: Arc::new(Docker(plugin)) }
}

struct Docker(Arc<Plugin>);

impl Protocol for Docker {
    /// Serves one request, then closes the connection.
    fn serve(&self, connection: UnixStream, _: Ending) -> Served {
        let plugin = Arc::clone(&self.0);
        Box::pin(async move { http::serve(connection, |call| answer::to(Arc::clone(&plugin), call)).await })
    }
}
