//! The broker: a notify descriptor and a policy in, a detached mount out.
//!
//! On the other side is a hostile client. Its mount(2) arrives here as a notification. We copy
//! the arguments once ([`memory`]), decode the copy ([`call`]), judge it by the policy
//! ([`policy`]), build the superblock ourselves ([`perform`]) and answer. The kernel never reads
//! again what we judged, and there is no answer that lets it continue the call.
//!
//! What runs beside mounts calls the [`service_broker`], in the same way.
//!
//! A client that is trusted to mount by itself is only looked at ([`witness`]).

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
