//! What the launching process tells the sandbox's first process to become. That one was started
//! before anything was planned, so it has to be told all.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use crate::container::{Joins, Outline};
use crate::spec::{Capabilities, Identity, ProcessLimits, Role};

/// Everything that is no descriptor. Texts are bytes: paths may be anything.
#[derive(Debug, Serialize, Deserialize)]
pub struct Orders {
    pub identity: Identity,
    pub capabilities: Capabilities,
    /// The client's user, as the host's number.
    pub owner: u32,
    /// The first process's user, as its own number.
    pub init_id: u32,
    /// A group that its processes are known by, where their user says nothing.
    pub mark: Option<u32>,
    pub role: Role,
    pub process_limits: ProcessLimits,
    /// Of the descriptors, those that lead to a container.
    pub joins: Option<Outline>,
    pub argv: Vec<Vec<u8>>,
    /// The helper's possible paths, in the order of PATH.
    pub candidates: Vec<Vec<u8>>,
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Orders {
    /// Whether it says when it is ready, and hears only then that all is there: it needs the launching process on its way, for its ids
    /// or its source, or could do without it from then on.
    pub fn is_met_halfway(&self) -> bool {
        matches!(self.identity, Identity::UserNamespace | Identity::HostRoot) || self.joins_users()
    }

    /// Whether it becomes a user of a namespace that is not its own.
    pub fn joins_users(&self) -> bool {
        self.joins.is_some_and(|outline| outline.has_users())
    }
}

/// The descriptors that go with the orders, in this order.
#[derive(Debug)]
pub struct Descriptors {
    pub output_read: OwnedFd,
    pub output_write: OwnedFd,
    pub ring: OwnedFd,
    pub joins: Option<Joins>,
}
