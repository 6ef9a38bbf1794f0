//! A volume plugin for Docker and Podman, with every client definition as a type of volumes. In: calls of a container engine on a unix
//! socket. Out: operations of workers, and answers.
//!
//! A volume's options and users are in small files ([`volumes`]); whether it is mounted is in the engine's records and the kernel. The
//! server itself holds no state, so it may be killed or replaced at any moment.

pub mod endpoint;
pub mod http;
pub mod answer;
pub mod mounting;
pub mod plugin;
pub mod volumes;
pub mod users;
pub mod call;
pub mod options;
pub mod name;
pub mod messages;
pub mod error;

pub use endpoint::endpoint;
pub use plugin::Settings;
