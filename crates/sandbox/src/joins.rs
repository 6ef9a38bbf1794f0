//! The namespaces of a container that a client joins, as they are sent with the orders: the launching process takes
//! them from a [`Container`](crate::Container), the sandbox's first process joins them.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

/// The namespaces that the client joins.
#[derive(Debug)]
pub struct Joins {
    /// A pidfd of the container's first process: when that ends, the sandbox ends.
    pub process: OwnedFd,
    /// The network, ipc, uts and cgroup namespaces.
    pub namespaces: Vec<OwnedFd>,
    /// `None`: the host's.
    pub users: Option<OwnedFd>,
}

/// The number of descriptors in [`Joins`], which has to be known to receive them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    namespaces: usize,
    has_users: bool,
}

impl Outline {
    pub fn has_users(self) -> bool {
        self.has_users
    }
}

impl Joins {
    pub fn outline(&self) -> Outline {
        Outline { namespaces: self.namespaces.len(), has_users: self.users.is_some() }
    }

    pub fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(&self.process).chain(&self.namespaces).chain(&self.users)
    }

    /// From the descriptors that [`Joins::descriptors`] returned, in that order. `None`: too few.
    pub fn collect(outline: Outline, mut descriptors: impl Iterator<Item = OwnedFd>) -> Option<Self> {
        let process = descriptors.next()?;
        let namespaces: Vec<_> = descriptors.by_ref().take(outline.namespaces).collect();
        let users = if outline.has_users { Some(descriptors.next()?) } else { None };
        (namespaces.len() == outline.namespaces).then_some(Self { process, namespaces, users })
    }
}
