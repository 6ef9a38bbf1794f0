//! The life of the server: sockets, readiness, connections, SIGTERM.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use shorefast_sys::activation;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::error::Error;
use crate::http;
use crate::listen::{self, Bound};
use crate::operations::Operations;
use crate::service::{Ending, Endpoint, Protocol};
use crate::silence;

#[derive(Debug)]
pub struct Options {
    pub endpoints: Vec<Endpoint>,
    /// For `/healthz` and `/metrics`.
    pub metrics: Option<SocketAddr>,
    pub operations: Operations,
}

/// Requests under way when SIGTERM comes. What is not done by then is done by its worker, and found by our successor.
const TO_FINISH: Duration = Duration::from_millis(1500);
/// A thread that waited for a worker waits for the next one.
const IDLE_THREAD: Duration = Duration::from_secs(2);

/// Serves until SIGTERM or SIGINT.
pub fn run(options: Options) -> Result<(), Error> {
    let mut passed = activation::sockets();
    // One thread: the work is the workers'.
    let runtime = Builder::new_current_thread().enable_all().thread_keep_alive(IDLE_THREAD).build().map_err(Error::Runtime)?;
    let served = runtime.block_on(async {
        // Before the first socket: whoever sees that may end us.
        let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
        let mut sockets = JoinSet::new();
        let (end, ending) = watch::channel(false);
        // Each connection holds one: none is left when all are over.
        let (open, mut all_over) = mpsc::channel::<()>(1);
        for endpoint in options.endpoints {
            let listen = |source| Error::Listen { path: endpoint.socket.clone(), source };
            let bound = listen::at(&endpoint.socket, endpoint.name, &mut passed).map_err(listen)?;
            let listener = bound.listener.try_clone().and_then(UnixListener::from_std).map_err(listen)?;
            sockets.spawn(accept(listener, bound, endpoint.protocol, Ending(ending.clone()), open.clone()));
        }
        if let Some(address) = options.metrics {
            let listener = TcpListener::bind(address).await.map_err(|source| Error::Address { address, source })?;
            tokio::spawn(http::serve(listener, options.operations.clone()));
        }
        let watch = tokio::spawn(silence::watch(options.operations.clone()));
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
        watch.abort();
        // Nobody connects any more; who is connected gets the answers to what was asked, or is just being asked.
        let _ = end.send(true);
        drop(open);
        let finished = async {
            while sockets.join_next().await.is_some() {}
            all_over.recv().await;
            options.operations.finished().await;
        };
        let _ = tokio::time::timeout(TO_FINISH, finished).await;
        Ok(())
    });
    // Not dropped: that would cancel the requests under way, and kill their workers. They go on without us.
    std::mem::forget(runtime);
    served
}

/// Connections, each in a task of its own. At the end of the server the socket goes, and the connections stay.
async fn accept(listener: UnixListener, bound: Bound, protocol: Arc<dyn Protocol>, mut ending: Ending, open: mpsc::Sender<()>) {
    let others = ending.clone();
    let serve = |connection| {
        let (served, open) = (protocol.serve(connection, others.clone()), open.clone());
        tokio::spawn(async move {
            served.await;
            drop(open);
        });
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ending.begun() => break,
        };
        match accepted {
            Ok((connection, _)) => serve(connection),
            // Out of descriptors: they come back.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    // Who came before the end, and has only us. Those at systemd's socket are served by the next one.
    let mut waiting = std::iter::from_fn(|| if bound.is_systemds() { None } else { bound.listener.accept().ok() });
    waiting
        .try_for_each(|(connection, _)| {
            connection.set_nonblocking(true)?;
            UnixStream::from_std(connection).map(serve)
        })
        .unwrap_or_default();
}
