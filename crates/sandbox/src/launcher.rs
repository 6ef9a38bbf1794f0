//! What the launching process runs: it prepares a sandbox, sends its first process the orders, fills its root, and
//! holds the running client as a guard.

pub mod launch;
pub mod first;
pub mod client;
pub mod control;
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
