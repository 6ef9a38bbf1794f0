//! Opens places in a namespace that the calling thread visits. In: a path from the mount table. Out: its topmost mount, by descriptor.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use shorefast_sys as sys;
use sys::bounded_call::{self, Bounded};

/// How long others may let us wait at one step.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) const PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The kernel writes no links into its table: if there is one now, somebody has put it there.
const WITHOUT_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

/// Asks no filesystem. A mount point, and everything above it, is in the kernel's caches; only what has to be revalidated is missing.
pub(crate) fn open_cached(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat2(CWD, path, PLACE, Mode::empty(), WITHOUT_LINKS | ResolveFlags::CACHED)
}

/// The way may lead through filesystems of a container's own, whose servers do not answer.
pub(crate) fn open(path: &Path, descriptor: BorrowedFd<'_>, deadline: Instant) -> Bounded<OwnedFd> {
    match open_cached(path) {
        Ok(opened) => Bounded::Done(opened),
        // The path is absolute, so the descriptor does not matter.
        Err(_) => bounded_call::open_below_with(descriptor, path, PLACE, WITHOUT_LINKS, deadline),
    }
}

pub(crate) fn within(deadline: Instant) -> Instant {
    deadline.min(Instant::now() + PATIENCE)
}
