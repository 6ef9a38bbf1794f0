//! What the end-to-end tests stand on. In: a machine prepared by `cargo xtask setup`. Out: per test a host of its own, real servers
//! on its own network, one way to mount through Shorefast and through the native client, and the question "is anything left?".
//!
//! Everything here panics when it fails: it runs only in tests, and says what it was doing.

pub mod runtimes;
pub mod servers;

pub mod channel;
pub mod client;
pub mod hostile;
pub mod layout;
pub mod load;
pub mod unseen;
pub mod lookout;
pub mod bare;
pub mod host;
mod leftovers;

pub mod resources;
pub mod cgroups;
pub mod kernel;
pub mod mountinfo;
pub mod processes;

pub mod command;
mod isolation;
pub mod path;
pub mod skip;
pub mod wait;

pub use client::{Client, Way};
pub use command::Ran;
pub use host::{Host, Root};
pub use layout::Layout;
