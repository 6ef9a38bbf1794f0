//! The sandbox: a [`Spec`] and a root filesystem in, a running [`Client`] out.
//!
//! The client is not trusted at all: its image, its arguments and everything it does are treated as hostile. It gets
//! the image's files read-only, a bounded scratch space, seven harmless devices and the host's network, and nothing
//! else.
//!
//! The directory of a function says which process runs it. The launching process (the one that mounts) runs [`launcher`],
//! which starts the sandbox's first process. That one runs [`child`]: it sets up namespaces, seccomp and credentials,
//! starts the client and finally becomes pid 1 of the sandbox. They talk over a socket ([`handshake`]). [`cleaner`] is
//! run by the process that ends a sandbox. The other modules are shared: messages, and values that describe a sandbox.

pub mod launcher;
pub mod cleaner;
pub mod child;
pub mod handshake;
pub mod packet;
pub mod orders;
pub mod joins;
pub mod cgroup;
mod pid_namespace;
pub mod spec;
pub mod error;

pub use cgroup::Cgroup;
pub use error::Error;
pub use launcher::client::Client;
pub use launcher::container::Container;
pub use launcher::launch::{Prepared, prepare};
pub use spec::Spec;
