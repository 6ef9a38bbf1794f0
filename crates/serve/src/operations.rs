//! Asks workers on behalf of async requests. A request that is dropped (its caller cancelled it, or is gone) kills its worker.

use std::any::Any;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use shorefast_engine::error::{Failure, Kind, Step};
use shorefast_worker::ask::Canceller;
use shorefast_worker::{Operation, Outcome, Workers};
use tokio::sync::{Semaphore, oneshot};

use crate::metrics::Metrics;

/// Workers at the same time. Others wait: a full node's volumes all at once should not take all memory.
const AT_ONCE: usize = 128;

#[derive(Clone, Debug)]
pub struct Operations {
    workers: Arc<Workers>,
    room: Arc<Semaphore>,
    pub metrics: Arc<Metrics>,
}

impl Operations {
    pub fn new(workers: Workers) -> Self {
        Self { workers: Arc::new(workers), room: Arc::new(Semaphore::new(AT_ONCE)), metrics: Arc::default() }
    }

    /// Until none is under way.
    pub(crate) async fn finished(&self) {
        let _ = self.room.acquire_many(AT_ONCE as u32).await;
    }

    /// Does one operation by the deadline. `held` is released when the worker does nothing more, even if the caller has stopped waiting.
    pub async fn ask(&self, operation: Operation, secrets: Vec<OwnedFd>, deadline: Instant, held: impl Send + 'static) -> Outcome {
        self.perform(operation, secrets, deadline, held, Box::new(())).await
    }

    /// The same, but `held` is released when the worker's process is gone. Where that waits for a server, this may be long after the answer.
    pub async fn ask_until_gone(&self, operation: Operation, deadline: Instant, held: impl Any + Send) -> Outcome {
        self.perform(operation, Vec::new(), deadline, (), Box::new(held)).await
    }

    /// Lets go of what was held for workers that are gone by now.
    pub fn reap(&self) {
        self.workers.reap_lingering();
    }

    /// For `/metrics`.
    pub(crate) fn count_stuck(&self) {
        self.metrics.set_stuck(self.workers.lingering());
    }

    async fn perform(
        &self,
        operation: Operation,
        secrets: Vec<OwnedFd>,
        deadline: Instant,
        held: impl Send + 'static,
        until_gone: Box<dyn Any + Send>,
    ) -> Outcome {
        let name = operation.name();
        let Ok(Ok(room)) = tokio::time::timeout_at(deadline.into(), Arc::clone(&self.room).acquire_owned()).await else {
            return failure(Kind::Deadline, "too many operations are under way").into();
        };
        let cancellation = Cancellation::default();
        let on_drop = CancelOnDrop(cancellation.clone());
        let (workers, metrics) = (Arc::clone(&self.workers), Arc::clone(&self.metrics));
        let (answer, answered) = oneshot::channel();
        // The thread waits for the worker; it also outlives a cancelled request until the worker is gone.
        tokio::task::spawn_blocking(move || {
            let _released_at_the_end = room;
            let measured = metrics.begin(name);
            let secrets: Vec<_> = secrets.iter().map(|secret| secret.as_fd()).collect();
            let mut worker = None;
            let outcome = match workers.start(operation, &secrets) {
                Ok(running) => {
                    let running = worker.insert(running.holding(until_gone));
                    match running.canceller().map(|canceller| cancellation.arm(canceller)) {
                        Ok(true) => running.answer(deadline),
                        Ok(false) => failure(Kind::Cancelled, "cancelled by its caller").into(),
                        Err(error) => failure(Kind::Internal, &format!("cannot watch a worker: {error}")).into(),
                    }
                }
                Err(error) => failure(Kind::Internal, &format!("cannot start a worker: {error}")).into(),
            };
            measured.end(&outcome);
            // A worker that was cancelled may still be at work until it is gone. One that has answered has done all of it.
            if outcome.result.as_ref().is_err_and(|failure| matches!(failure.kind, Kind::Cancelled | Kind::Deadline)) {
                worker = None;
            }
            // Before the answer: the caller may ask for the next operation at once.
            drop(held);
            // The caller may be gone.
            let _ = answer.send(outcome);
            drop(worker);
            workers.keep_spares();
        });
        let outcome = answered.await;
        drop(on_drop);
        outcome.unwrap_or_else(|_| failure(Kind::Internal, "the thread that waited for a worker has ended").into())
    }
}

fn failure(kind: Kind, message: &str) -> Failure {
    Failure::new(Step::Start, kind, message.to_owned())
}

/// A worker that may not have been started yet when its request is cancelled.
#[derive(Clone, Debug, Default)]
struct Cancellation(Arc<Mutex<State>>);

#[derive(Debug, Default)]
enum State {
    #[default]
    NotStarted,
    Started(Canceller),
    Cancelled,
}

impl Cancellation {
    /// `false`: cancelled already.
    fn arm(&self, canceller: Canceller) -> bool {
        let Ok(mut state) = self.0.lock() else { return false };
        let is_wanted = !matches!(*state, State::Cancelled);
        if is_wanted {
            *state = State::Started(canceller);
        }
        is_wanted
    }
}

struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Ok(mut state) = self.0.0.lock() else { return };
        // To a worker that has ended, this does nothing: it is held by pidfd.
        if let State::Started(canceller) = std::mem::replace(&mut *state, State::Cancelled) {
            canceller.cancel();
        }
    }
}
