//! Looks now and then whether requests to clients wait. Those that wait twice are judged by a worker, which ends clients that neither answer nor are
//! wanted any more: the kernel does not let killed containers go that wait for them, and what cannot end is never unmounted by its caller.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use shorefast_engine::release;
use shorefast_sys::fuse_control::Connections;
use shorefast_worker::Operation;

use crate::operations::Operations;

/// Between two looks, which read a directory of the kernel and ask no server.
const LOOK: Duration = Duration::from_secs(2);
/// How long a client moves no byte before it may be ended. kubelet gives a pod 30 s: with two looks before, this ends within half of that.
const PATIENCE: Duration = Duration::from_secs(8);
const TO_RELEASE: Duration = release::LONGEST.saturating_add(Duration::from_secs(30));

pub(crate) async fn watch(operations: Operations) {
    let mut connections = None;
    let mut before = HashSet::new();
    loop {
        tokio::time::sleep(LOOK).await;
        // Nothing has used FUSE yet, perhaps.
        connections = connections.or_else(|| Connections::open().ok());
        let waiting = connections.as_ref().and_then(|connections| connections.waiting().ok()).unwrap_or_default();
        let now: HashSet<u32> = waiting.into_iter().collect();
        if !now.is_disjoint(&before) {
            operations.ask(Operation::Release { patience: PATIENCE }, Vec::new(), Instant::now() + TO_RELEASE, ()).await;
        }
        before = now;
    }
}
