//! The engine for long-lived callers. `engine` is written for a process that ends after one operation: its guards, its memory and its
//! children last as long as the process. A server with many threads therefore asks a worker: a process per operation, started from the
//! server's own binary, which gets a [`Job`] and answers with an [`Outcome`].
//!
//! ```text
//! server (any thread)                              worker (one operation)
//! ───────────────────                              ──────────────────────
//! Workers::start ──── Job + secrets as fds ──────► work::run: plan, mount, …
//! Running::wait  ◄─── Outcome ──────────────────── then it ends
//! Running, dropped or late: SIGKILL ─────────────► as if `shorefast mount` had been killed: a working mount or none
//! ```
//! The socket between them is the worker's standard input. Nothing of a job is on a command line or on disk.

pub mod work;
pub mod base;
pub mod ask;
pub mod wire;
pub mod job;
pub mod task;

pub use ask::{Running, Workers};
pub use job::{Answer, Job, Operation, Outcome};
