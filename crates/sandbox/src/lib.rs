//! The sandbox: a spec and a root filesystem in, a running client out.
//!
//! On the other side is a client that is trusted with nothing: its image, its arguments and all
//! that it does are hostile. It gets the image's files read-only, a bounded scratch space, seven
//! harmless devices, the host's network, and no way to anything else.

pub mod launch;
pub mod first;
pub mod client;
pub mod members;
pub mod stuck;
pub mod child;
pub mod handshake;
pub mod packet;
pub mod fill;
pub mod root_source;
pub mod host_mounts;
pub mod etc;
pub mod private;
pub mod root;
pub mod node;
pub mod files;
pub mod source;
pub mod orders;
pub mod filter;
pub mod container;
pub mod cgroup;
pub mod spec;
pub mod error;

pub use cgroup::Cgroup;
pub use client::Client;
pub use container::Container;
pub use error::Error;
pub use launch::{Prepared, prepare};
pub use spec::Spec;
