//! What the launching process tells the sandbox's first process to become. That one was forked
//! before anything was planned, so it has to be told all: first what its image holds, as soon as
//! that is known, then the rest.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use crate::spec::{Capabilities, Identity, Role};

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
    pub scratch_bytes: u64,
    pub files: Vec<ReadFile>,
    pub source: Option<SourceKind>,
    /// What is shown of the host: with a descriptor each, in order.
    pub shown: Vec<ShownPlace>,
    /// Programs of the image in whose place ours stands.
    pub stand_ins: Vec<Vec<u8>>,
    pub role: Role,
    pub joins_users: bool,
    pub argv: Vec<Vec<u8>>,
    /// The helper's possible paths, in the order of PATH.
    pub candidates: Vec<Vec<u8>>,
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Which directories of the root are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Furniture {
    /// All that is writable; the image is shared and read-only.
    Full,
    /// /dev, /proc and /shorefast; the rest is the container's own.
    Sparse,
}

/// A top-level entry of the image. Directories and files come with a descriptor each, in order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Entry {
    pub name: Vec<u8>,
    pub kind: EntryKind,
}

impl Entry {
    pub fn has_descriptor(&self) -> bool {
        !matches!(self.kind, EntryKind::Link(_))
    }
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    Directory,
    File,
    Link(Vec<u8>),
}

/// A file for the client, with its content.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReadFile {
    pub inside: Vec<u8>,
    pub content: Vec<u8>,
    pub mode: u32,
    pub place: FilePlace,
}

/// Where a file for the client stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilePlace {
    /// Below a directory of ours, and the client's own.
    Ours,
    /// Laid over the image's /etc, and the client's own.
    EtcOwned,
    /// Laid over the image's /etc.
    Etc,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ShownPlace {
    pub inside: Vec<u8>,
    pub kind: PlaceKind,
}

/// What a mount needs below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlaceKind {
    Directory,
    File,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceKind {
    Directory,
    File,
}

/// The descriptors that go with the orders, in this order.
#[derive(Debug)]
pub struct Descriptors {
    pub program: OwnedFd,
    pub output_read: OwnedFd,
    pub output_write: OwnedFd,
    pub ring: OwnedFd,
    /// The source, ready to be attached. In a user namespace it becomes that only later, and then
    /// the launching process attaches it.
    pub source: Option<OwnedFd>,
    pub shown: Vec<OwnedFd>,
    /// The container's user namespace, to be joined.
    pub users: Option<OwnedFd>,
}
