//! Peer groups and masters. In: how the old mounts propagated. Out: the new ones propagate to each other in the same way.
//!
//! All mounts of a peer group, and their slaves, are mounts of one superblock: so wherever the old ones were connected, both ends have
//! been replaced, and can be connected again (MOVE_MOUNT_SET_GROUP, Linux 5.15, whatever their namespaces).

use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use shorefast_sys as sys;
use sys::Result;
use sys::mount::Propagation;
use sys::mount_table::{Base, MountNamespace, Row};

use crate::replace::outcome::{Degraded, Step};

/// For each old group, a new mount that is in its successor.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    leaders: HashMap<u64, OwnedFd>,
    later: Vec<Later>,
}

#[derive(Debug)]
struct Later {
    old: Row,
    namespace: Rc<MountNamespace>,
    new: OwnedFd,
}

impl Groups {
    /// For a private mount in the calling thread's namespace. What is to be connected with a mount that is not replaced yet comes later.
    pub(crate) fn join(&mut self, old: &Row, namespace: &Rc<MountNamespace>, mount: BorrowedFd<'_>) -> Result<()> {
        if self.try_to_join(old, mount, Missing::ComesLater)? {
            return Ok(());
        }
        let new = sys::call(|| "dup()".into(), mount.try_clone_to_owned())?;
        self.later.push(Later { old: old.clone(), namespace: Rc::clone(namespace), new });
        Ok(())
    }

    /// False: what it is to be connected with is missing.
    fn try_to_join(&mut self, old: &Row, mount: BorrowedFd<'_>, missing: Missing) -> Result<bool> {
        if old.unbindable {
            return sys::mount::set_propagation(mount, Propagation::Unbindable).map(|()| true);
        }
        if let Some(peer) = self.leaders.get(&old.peer_group) {
            return sys::mount::join_peers(mount, peer.as_fd()).map(|()| true);
        }
        if old.master != 0 {
            match (self.leaders.get(&old.master), missing) {
                (Some(master), _) => {
                    sys::mount::join_peers(mount, master.as_fd())?;
                    sys::mount::set_propagation(mount, Propagation::Slave)?;
                }
                (None, Missing::ComesLater) => return Ok(false),
                // Nothing of that group is mounted any more, so nothing can come from there.
                (None, Missing::IsGone) => {}
            }
        }
        if old.peer_group != 0 {
            sys::mount::set_propagation(mount, Propagation::Shared)?;
            let leader = sys::call(|| "dup()".into(), mount.try_clone_to_owned())?;
            self.leaders.insert(old.peer_group, leader);
        }
        Ok(true)
    }

    /// After the last place.
    pub(crate) fn finish(mut self, base: &Base, pass: &mut impl FnMut(Step)) -> Vec<Degraded> {
        let mut degraded = Vec::new();
        let mut missing = Missing::ComesLater;
        while !self.later.is_empty() {
            let before = self.later.len();
            for later in std::mem::take(&mut self.later) {
                let visit = base.home.visit(later.namespace.descriptor.as_fd());
                match visit.and_then(|_visit| self.try_to_join(&later.old, later.new.as_fd(), missing)) {
                    Ok(true) => pass(Step::Grouped),
                    Ok(false) => self.later.push(later),
                    Err(error) => degraded.push(is_private(later.namespace.inode, later.old.point, &error)),
                }
            }
            if self.later.len() == before {
                missing = Missing::IsGone;
            }
        }
        degraded
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    ComesLater,
    IsGone,
}

/// It serves, but mounts that are made on it do not appear elsewhere any more.
pub(crate) fn is_private(namespace: u64, path: PathBuf, error: &sys::Error) -> Degraded {
    let why = format!("the new mount is there, but private: mounts on it do not propagate as before ({error})");
    Degraded { namespace, path, why }
}
