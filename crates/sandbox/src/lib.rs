//! The sandbox: a [`Spec`] and a root filesystem in, a running [`Client`] out.
//!
//! The client is not trusted at all: its image, its arguments and everything it does are treated as hostile. It gets
//! the image's files read-only, a bounded scratch space, seven harmless devices and the host's network, and nothing
//! else.
//!
//! Two processes run this code. The launching process (the one that mounts) calls [`launch`], which starts the
//! sandbox's first process; that one runs [`child`], sets up namespaces, seccomp and credentials, starts the client and
//! finally becomes pid 1 of the sandbox. They talk over a socket ([`handshake`]). Each module says which of the two
//! runs it.

pub mod launch;
pub mod first;
pub mod client;
pub mod launcher_end;
pub mod fill;
pub mod root_source;
pub mod host_mounts;
pub mod etc;
pub mod private;
pub mod base_dirs;
pub mod files;
pub mod node;
pub mod source;
pub mod container;
pub mod child;
pub mod child_end;
pub mod root;
pub mod filter;
pub mod members;
pub mod user;
pub mod stuck;
pub mod handshake;
pub mod packet;
pub mod orders;
pub mod joins;
pub mod cgroup;
pub mod spec;
pub mod error;

pub use cgroup::Cgroup;
pub use client::Client;
pub use container::Container;
pub use error::Error;
pub use launch::{Prepared, prepare};
pub use spec::Spec;
