//! The broker: a notify descriptor and a policy in, a detached mount out.
//!
//! The client is taken to be hostile. Its mount(2) arrives here as a seccomp notification. We copy the arguments once ([`memory`]), decode
//! the copy ([`call`]), judge it by the policy ([`policy`]), build the superblock ourselves ([`perform`]) and answer. The kernel never
//! reads again what we judged, and no answer of ours lets it continue the call (no TOCTOU).
//!
//! Services beside mounts call the [`service_broker`] in the same way.
//!
//! A client that is trusted to mount by itself is only observed ([`observer`]).

pub mod service_broker;
pub mod pipe;
pub mod observer;
pub mod broker;
pub mod perform;
pub mod view;
pub mod policy;
pub mod rules;
pub mod options;
pub mod flags;
pub mod call;
pub mod descriptor;
pub mod memory;
pub mod error;

pub use broker::{Broker, Mounted, ServicesFailed, StartServices};
pub use error::{By, Error, Refusal, Rule};
pub use observer::SelfMountObserver;
pub use policy::Policy;
pub use service_broker::{Grant, ServiceBroker};
pub use view::View;
