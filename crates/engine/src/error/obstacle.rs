//! Why a mount cannot get another client. Nothing was changed.

use std::time::Duration;

use crate::error::Kind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A filesystem that the kernel serves.
    NoClient,
    /// Its keeper is about to do so, after a crash.
    Healing,
    Dead,
    /// Unmounted while in use, or before all was ready.
    Unmounted,
    /// It was replaced before.
    Drains,
    /// Another process works on this target.
    InHand {
        pid: i32,
    },
    /// The definition says that it must not run twice at once.
    Exclusive {
        client: String,
    },
    /// Processes of the old client are still there, and it must not run twice at once.
    StillRuns,
    /// Who has locks on it that the new client would not know.
    Locked {
        holders: Vec<String>,
    },
    /// A secret that came through a pipe is in another place by the new definition.
    SecretGone {
        inside: String,
    },
    /// Its source is in the mount itself.
    ShowsItself,
    /// The old client does not answer.
    Silent {
        within: Duration,
    },
    /// What was written through the old client has not reached its server.
    NotWrittenBack {
        within: Duration,
    },
    /// The new client serves something else.
    Differs {
        what: String,
    },
    NotReplaceable {
        why: String,
    },
}

impl Obstacle {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::NoClient | Self::Exclusive { .. } | Self::ShowsItself => Kind::Unsupported,
            Self::Healing | Self::InHand { .. } | Self::StillRuns | Self::Locked { .. } => Kind::Busy,
            Self::Dead => Kind::Unavailable,
            Self::Unmounted | Self::Drains => Kind::NotFound,
            Self::SecretGone { .. } => Kind::Usage,
            Self::Silent { .. } | Self::NotWrittenBack { .. } => Kind::Deadline,
            Self::Differs { .. } => Kind::Client,
            Self::NotReplaceable { .. } => Kind::Failed,
        }
    }

    pub(super) fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoClient => "what serves it is the kernel, which is upgraded with the host",
            Self::Healing => "wait until `shorefast list` says that it serves",
            Self::Dead => "`shorefast mount` mounts it anew",
            Self::Unmounted | Self::Drains => "`shorefast list` shows what is mounted",
            Self::Exclusive { .. } => "unmount it and mount it again: the new client is that of today",
            Self::StillRuns => "it is tried again; `shorefast umount --force` ends it",
            Self::Locked { .. } => "end that, or wait longer: --wait TIME",
            Self::SecretGone { .. } => "unmount it and mount it again, with its secret",
            Self::ShowsItself => "unmount it and mount it again",
            Self::Silent { .. } | Self::NotWrittenBack { .. } => "is its server reachable? `shorefast logs` shows what the client says",
            Self::Differs { .. } => "mount it at another place by the new definition, and compare",
            Self::InHand { .. } | Self::NotReplaceable { .. } => return None,
        })
    }
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoClient => write!(out, "it has none"),
            Self::Healing => write!(out, "it has died, and another one is being started"),
            Self::Dead => write!(out, "it has died, and what is needed to start another one with it"),
            Self::Unmounted => write!(out, "it is not mounted any more"),
            Self::Drains => write!(out, "it was replaced before, and only serves what is open on it"),
            Self::InHand { pid } => write!(out, "pid {pid} is mounting there, or replacing it"),
            Self::Exclusive { client } => write!(out, "the definition of {client:?} says that it must not run twice at once (`exclusive`)"),
            Self::StillRuns => write!(out, "processes of the old one do not end, and it must not run twice at once (`exclusive`)"),
            Self::Locked { holders } => write!(out, "the new one would not know the locks of {}", holders.join(", ")),
            Self::SecretGone { inside } => {
                write!(out, "by the definition of today it reads a secret at {inside}, where none was given when it was mounted")
            }
            Self::ShowsItself => write!(out, "its source is in the mount itself"),
            Self::Silent { within } => write!(out, "the old one has not answered within {} s", within.as_secs()),
            Self::NotWrittenBack { within } => {
                write!(out, "the old one has not written back within {} s what was written to it", within.as_secs())
            }
            Self::Differs { what } => write!(out, "the new one does not show the same: {what}"),
            Self::NotReplaceable { why } => write!(out, "{why}"),
        }
    }
}
