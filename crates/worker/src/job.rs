//! The requests to a worker, and its answers. Values only.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shorefast_engine::difference::Difference;
use shorefast_engine::error::Failure;
use shorefast_engine::list::{Listed, Listing};
use shorefast_engine::publish::{Below, Wanted};
use shorefast_engine::record::Record;
use shorefast_engine::unmount::{Manner, Way};
use shorefast_engine::unserved::Unserved;
use shorefast_engine::upgrade::Upgraded;
use shorefast_engine::usage::Usage;
use shorefast_engine::{Installation, Request, text};

use crate::task::{Note, Task};

#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    pub installation: Installation,
    pub cgroups: Cgroups,
    pub operation: Operation,
}

/// Which control groups a mount's processes are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cgroups {
    /// None of the requesting process's: so its restart does not end them.
    #[default]
    Own,
    /// Those of the requesting process.
    Inherited,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A secret that comes as a descriptor is treated as part of the request.
    Mount(Box<Request>),
    /// Whether this is mounted already.
    Existing(Box<Request>),
    /// Whether this could be mounted, judged by the request and the definitions alone, without contacting a server or reading an image.
    Check(Box<Request>),
    /// Mounts below a directory that no link in the path leads out of; the request has the same target.
    MountBelow {
        request: Box<Request>,
        target: Below,
        directory: Directory,
        /// Names of the request's secrets, in the order of the descriptors.
        secrets: Vec<String>,
    },
    /// Gives the client of this mount the current secrets.
    Refresh {
        request: Box<Request>,
        /// Names of the request's secrets, in the order of the descriptors.
        secrets: Vec<String>,
    },
    /// A copy of a mount at another place.
    Publish(Wanted),
    /// Unmounts Shorefast's mount there, and removes its directory.
    Unpublish(Below),
    /// Unmounts the mount that copies were made of.
    Unstage(Below),
    /// How full the mount with this label is.
    Usage {
        #[serde(with = "text")]
        target: PathBuf,
        label: String,
    },
    /// Where a mount with this label, or with any label, is not served as it should be.
    Unserved {
        label: Option<String>,
    },
    /// Whether the mount is used at other places than its own, for example in containers.
    IsUsed {
        #[serde(with = "text")]
        target: PathBuf,
    },
    Unmount {
        #[serde(with = "text")]
        target: PathBuf,
        manner: Manner,
    },
    /// Creates, finds or removes a directory of a volume.
    Base {
        /// Its target is chosen by the worker.
        request: Box<Request>,
        /// Names of the request's secrets, in the order of the descriptors.
        secrets: Vec<String>,
        task: Task,
        /// The deadline for the whole operation.
        within: Duration,
    },
    /// The same, run in the namespace where the volume is mounted: its root is the only descriptor.
    InBase(Task),
    /// A new client for a live mount, if its image or its definition has changed.
    Upgrade {
        /// The mount's target, or its id.
        #[serde(with = "text")]
        target: PathBuf,
        /// How long to wait for processes that have locks on it.
        wait: Duration,
    },
    /// Ends clients that do not answer and whose users are all being killed, after watching them for this long.
    Release {
        patience: Duration,
    },
    List,
    Inspect {
        #[serde(with = "text")]
        target: PathBuf,
    },
}

/// The directory to mount at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directory {
    Exists,
    /// Created, and removed again if nothing is mounted.
    Made,
}

impl Operation {
    /// For counters.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mount(_) => "mount",
            Self::MountBelow { .. } => "mount",
            Self::Refresh { .. } => "refresh",
            Self::Publish(_) => "publish",
            Self::Unpublish(_) => "unpublish",
            Self::Unstage(_) => "unstage",
            Self::Usage { .. } => "usage",
            Self::Unserved { .. } => "unserved",
            Self::Existing(_) => "existing",
            Self::Base { task, .. } | Self::InBase(task) => match task {
                Task::Create(_) => "create",
                Task::Delete(_) => "delete",
                Task::Find(_) => "find",
            },
            Self::Check(_) => "check",
            Self::IsUsed { .. } => "is-used",
            Self::Unmount { .. } => "unmount",
            Self::Upgrade { .. } => "upgrade",
            Self::Release { .. } => "release",
            Self::List => "list",
            Self::Inspect { .. } => "inspect",
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// `None`: mount(8) made it, and there is no record of it.
    Mounted(Option<Box<Record>>),
    /// Shorefast's mount at the target, and how it differs from the request. An empty list: it does not.
    Existing(Option<(Box<Record>, Vec<Difference>)>),
    Checked(Checked),
    Unmounted(Way),
    Refreshed,
    Published,
    Unpublished,
    Usage(Usage),
    Unserved(Vec<Unserved>),
    /// `None`: there is none, or no longer.
    Volume(Option<Note>),
    IsUsed(bool),
    Upgraded(Box<Upgraded>),
    /// How many clients were ended.
    Released(usize),
    Listed(Listing),
    Inspected(Box<Listed>),
}

/// What a request would become.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    pub client: String,
    pub image: String,
    /// Names of its options whose values are secrets.
    pub secrets: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub result: Result<Answer, Failure>,
    /// Problems that did not stop the operation.
    pub warnings: Vec<Failure>,
    /// Files that were fetched for an image.
    pub downloads: u32,
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self { result: Err(failure), warnings: Vec::new(), downloads: 0 }
    }
}
