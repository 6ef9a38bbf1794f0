//! Copies of the new mount. In: a directory of it. Out: a detached mount of that directory.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use rustix::fs::{OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use shorefast_sys as sys;
use sys::bounded_call;
use sys::mount::Attributes;
use sys::mount_table::{Base, MountNamespace};
use sys::{Error, Result};

use crate::replace::opening;

/// The new mount: detached at first, and then at the first place.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    new: BorrowedFd<'a>,
    /// Where it is attached.
    namespace: Option<Rc<MountNamespace>>,
    /// Directories that were opened before: a hundred containers often share one.
    opened: HashMap<PathBuf, Rc<OwnedFd>>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(new: BorrowedFd<'a>) -> Self {
        Self { new, namespace: None, opened: HashMap::new() }
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.namespace.is_some()
    }

    pub(crate) fn is_attached_in(&mut self, namespace: Rc<MountNamespace>) {
        self.namespace = Some(namespace);
    }

    /// A private copy of it, or of a directory of it. Not for a thread that is away from home.
    pub(crate) fn copy(&mut self, base: &Base, directory: &Path, deadline: Instant) -> Result<OwnedFd> {
        let opened = self.open(directory, deadline)?;
        let from = opened.as_ref().map_or(self.new, |directory| directory.as_fd());
        let copy = match (sys::mount::detached_copy(from, Path::new("")), &self.namespace) {
            // Before Linux 6.15, what is copied must be attached in the caller's namespace.
            (Err(error), Some(namespace)) if error.errno() == Errno::INVAL => {
                let _visit = base.home.visit(namespace.descriptor.as_fd())?;
                sys::mount::detached_copy(from, Path::new(""))?
            }
            (copy, _) => copy?,
        };
        // The copy of a shared mount would be its peer.
        sys::mount::set_propagation(copy.as_fd(), sys::mount::Propagation::Private)?;
        Ok(copy)
    }

    /// The new client is asked for it. `None`: the whole mount.
    fn open(&mut self, directory: &Path, deadline: Instant) -> Result<Option<Rc<OwnedFd>>> {
        if directory.as_os_str().is_empty() {
            return Ok(None);
        }
        if let Some(opened) = self.opened.get(directory) {
            return Ok(Some(Rc::clone(opened)));
        }
        let opened = Rc::new(open_inside(self.new, directory, deadline)?);
        self.opened.insert(directory.to_owned(), Rc::clone(&opened));
        Ok(Some(opened))
    }
}

/// A file or directory of a mount, by the rules for a path that others chose.
pub(crate) fn open_inside(mount: BorrowedFd<'_>, path: &Path, deadline: Instant) -> Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let opened = bounded_call::open_below_with(mount, path, flags, resolve, opening::within(deadline));
    opened.or_timed_out(|| format!("open({path:?})")).map_err(|error| Error::new(format!("open({path:?}) in the new mount"), error.errno()))
}

/// Exactly these, whatever it had before.
pub(crate) fn set_attributes(mount: BorrowedFd<'_>, wanted: MountAttrFlags) -> Result<()> {
    const ALL: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY
        .union(MountAttrFlags::MOUNT_ATTR_NOSUID)
        .union(MountAttrFlags::MOUNT_ATTR_NODEV)
        .union(MountAttrFlags::MOUNT_ATTR_NOEXEC)
        .union(MountAttrFlags::MOUNT_ATTR__ATIME)
        .union(MountAttrFlags::MOUNT_ATTR_NODIRATIME)
        .union(MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW);
    let set = wanted & ALL;
    // How access times are kept is one value: it is cleared as a whole before it is set.
    let clear = (ALL - set) | MountAttrFlags::MOUNT_ATTR__ATIME;
    sys::mount::set_attributes(mount, Attributes { set: Some(set), clear: Some(clear), ..Attributes::default() })
}
