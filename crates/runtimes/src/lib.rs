//! Containers that already run: a name or a label in, the first process of the one container that it means out.
//!
//! Each runtime is asked through its own interface: Docker through its socket, Podman through its socket or, as its service
//! usually does not run, its command, containerd through its socket. They are only queried; no container is changed.

pub mod find;
pub mod podman;
pub mod docker;
pub mod containerd;
mod grpc;
mod http_get;
pub mod error;
pub mod seen;
pub mod selector;

pub use error::Error;
pub use find::{Container, find};
pub use selector::{Malformed, Runtime, Selector};
