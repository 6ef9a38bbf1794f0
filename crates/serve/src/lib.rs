//! `shorefast serve`: services in, their unix sockets served until SIGTERM. The only process of ours that lives on, and the only one with an
//! async runtime. It holds no state and touches no filesystem that a server could block: whatever mounts, unmounts or looks at a mount is an
//! [`Operation`](shorefast_worker::Operation) of a worker. So it may be killed or replaced at any moment.

pub mod run;
pub mod http;
mod silence;
pub mod operations;
pub mod metrics;
pub mod listen;
pub mod service;
pub mod error;

pub use error::Error;
pub use operations::Operations;
pub use run::{Options, run};
pub use service::{Ending, Endpoint, Protocol};
