//! What a worker is asked, and what it answers. Values only.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shorefast_engine::difference::Difference;
use shorefast_engine::error::Failure;
use shorefast_engine::list::{Listed, Listing};
use shorefast_engine::publish::{Below, Wanted};
use shorefast_engine::record::Record;
use shorefast_engine::unmount::{Manner, Way};
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
    /// None of the asking process's: its restart does not end them.
    #[default]
    Own,
    /// Those of the asking process.
    Inherited,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A secret that comes as a descriptor counts as the request's.
    Mount(Box<Request>),
    /// Whether this is mounted already.
    Existing(Box<Request>),
    /// Whether this could be mounted, as far as the request and the definitions tell. Neither server nor image is asked.
    Check(Box<Request>),
    /// The same at a place that no link on the way leads out of, by the same target.
    MountBelow {
        request: Box<Request>,
        target: Below,
        directory: Directory,
        /// Names of the request's secrets, in the order of the descriptors.
        secrets: Vec<String>,
    },
    /// The client of this mount gets the secrets as they are now.
    Refresh {
        request: Box<Request>,
        /// Names of the request's secrets, in the order of the descriptors.
        secrets: Vec<String>,
    },
    /// A copy of a mount at another place.
    Publish(Wanted),
    /// Takes away what of ours is mounted there, and its directory.
    Unpublish(Below),
    /// Unmounts what copies were made of.
    Unstage(Below),
    /// How full the mount with this label is.
    Usage {
        #[serde(with = "text")]
        target: PathBuf,
        label: String,
    },
    /// Where a mount with this label, or with any, is that nobody serves any more.
    Unserved {
        label: Option<String>,
    },
    /// Whether the mount is used at other places than its own, as in containers.
    IsUsed {
        #[serde(with = "text")]
        target: PathBuf,
    },
    Unmount {
        #[serde(with = "text")]
        target: PathBuf,
        manner: Manner,
    },
    /// Something with a directory of a volume.
    Base {
        /// Its target is chosen by the worker.
        request: Box<Request>,
        /// Names of the request's secrets, in the order of the descriptors.
        secrets: Vec<String>,
        task: Task,
        /// All of it.
        within: Duration,
    },
    /// The same where the volume is mounted: its root is the only descriptor.
    InBase(Task),
    /// A new client for a live mount, if its image or its definition is another one today.
    Upgrade {
        /// Its place, or its id.
        #[serde(with = "text")]
        target: PathBuf,
        /// For whoever has locks on it.
        wait: Duration,
    },
    /// Ends clients that do not answer, and whose users are all being killed, after having watched them for so long.
    Release {
        patience: Duration,
    },
    List,
    Inspect {
        #[serde(with = "text")]
        target: PathBuf,
    },
}

/// The directory that is mounted at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directory {
    Exists,
    /// Made, and removed again if nothing is mounted.
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
    /// The mount of ours at the target, and in what it differs from the request: in nothing, if that is empty.
    Existing(Option<(Box<Record>, Vec<Difference>)>),
    Checked(Checked),
    Unmounted(Way),
    Refreshed,
    Published,
    Unpublished,
    Usage(Usage),
    /// Places, for people.
    Unserved(Vec<String>),
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
    /// What is worth knowing although all went on.
    pub warnings: Vec<Failure>,
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self { result: Err(failure), warnings: Vec::new() }
    }
}
