//! The message that tells the sandbox's first process what to become. The launching process builds it from the plan;
//! the first process, which was started before anything was planned, receives it and knows nothing else.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use crate::joins::{Joins, Outline};
use crate::spec::{Capabilities, Identity, ProcessLimits, Role};

/// Everything except descriptors. Strings are bytes, because paths need not be UTF-8.
#[derive(Debug, Serialize, Deserialize)]
pub struct Orders {
    pub identity: Identity,
    pub capabilities: Capabilities,
    /// Bits of the capabilities that it has in its own user namespace.
    pub held: u64,
    /// The client's uid, as seen on the host.
    pub owner: u32,
    /// The first process's uid, as seen in its own user namespace.
    pub init_id: u32,
    /// A supplementary group that marks the client's processes where their uid does not identify them (host root).
    pub mark: Option<u32>,
    pub role: Role,
    pub process_limits: ProcessLimits,
    /// How many of the descriptors belong to [`Descriptors::joins`].
    pub joins: Option<Outline>,
    pub argv: Vec<Vec<u8>>,
    /// Paths to try for the helper, in the order of PATH.
    pub candidates: Vec<Vec<u8>>,
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Orders {
    /// Whether the first process reports `Ready` and waits for `Go` before it installs its filter: it then needs the
    /// launching process midway, for its ID mapping or its source, or it has no filter at all that would stop it from
    /// going on.
    pub fn is_met_halfway(&self) -> bool {
        matches!(self.identity, Identity::UserNamespace | Identity::HostRoot) || self.joins_users()
    }

    /// Whether it joins a user namespace that already exists.
    pub fn joins_users(&self) -> bool {
        self.joins.is_some_and(|outline| outline.has_users())
    }
}

/// The descriptors that are sent with the orders, in this order.
#[derive(Debug)]
pub struct Descriptors {
    pub output_read: OwnedFd,
    pub output_write: OwnedFd,
    pub ring: OwnedFd,
    pub joins: Option<Joins>,
}
