//! What is replaced, how far that has come, and what could not be done.

use std::path::PathBuf;

use shorefast_sys as sys;
use sys::mount::Identity;

/// The mount to be replaced. The caller knows that its superblock lives: otherwise its device number could be another one's by now.
#[derive(Clone, Copy, Debug)]
pub struct Old {
    /// The mount of the record.
    pub identity: Identity,
    /// Its mount namespace, by inode.
    pub namespace: u64,
    /// Only mounts with a lower unique id: those that were there when the superblock was seen to live, so they are of this one, and not
    /// of another that got its device number later.
    pub before: Option<u64>,
}

/// What is to be done if the place of the record cannot be replaced, or not without a rest of the old mount below the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primary {
    /// The old client is dead: whatever is possible.
    AsOthers,
    /// The old client serves: nothing at all.
    Required,
}

/// A place that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degraded {
    /// The mount namespace, by inode.
    pub namespace: u64,
    /// As that namespace sees it.
    pub path: PathBuf,
    /// What is wrong, and what to do about it.
    pub why: String,
}

impl std::fmt::Display for Degraded {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} in mnt:[{}]: {}", self.path.display(), self.namespace, self.why)
    }
}

/// What has just been done. Tests kill the process here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The mount namespaces were looked through.
    Found,
    /// The old superblock is held by a process of its own.
    Held,
    /// The copy for a place is made.
    Copied,
    /// The new mount is below the old one.
    AttachedBeneath,
    /// The new mount is on top of the old one.
    AttachedOnTop,
    /// Nothing that happens to the new mount propagates.
    Separated,
    /// Mounts that were on the old one are on the new one, too.
    NestedCarried,
    /// Nothing that happens to the old mount propagates.
    OldSeparated,
    Detached,
    /// Its peers and masters are as before.
    Grouped,
}
