//! A CSI driver for every client definition. In: calls of a container orchestrator on a unix socket. Out: operations of workers, and answers
//! with the codes of the specification. Nothing is kept here: what is mounted where, the records and the kernel know.

pub mod endpoints;
pub mod grpc;
pub mod registration;
pub mod identity;
pub mod controller;
pub mod node;
pub mod health;
pub mod secrets;
pub mod driver;
pub mod provisioned;
pub mod volume_id;
pub mod volume;
pub mod labels;
pub mod capability;
pub mod paths;
pub mod locks;
pub mod probes;
pub mod status;
pub mod authority;
pub mod messages;

pub use driver::Settings;
pub use endpoints::endpoints;
