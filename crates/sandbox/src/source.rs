//! A host path for the client to see.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, FileType, OFlags, StatxFlags};
use rustix::mount::MountAttrFlags;
use shorefast_sys as sys;
use sys::errand::{self, Errand};
use sys::mount::Attributes;
use sys::namespace::Home;

use crate::error::Error;
use crate::spec::SOURCE;

/// What a mount needs below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File,
}

/// It is held as a detached mount.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    pub tree: OwnedFd,
    pub kind: Kind,
}

impl Source {
    /// It may be on anybody's filesystem, whose server may be dead. `opened`: what came of that, if somebody has opened it.
    pub fn open(path: &Path, opened: Option<Errand<OwnedFd>>, deadline: Instant) -> Result<Self, Error> {
        let fail = |source| Error::Source { path: path.to_owned(), source };
        let opened = opened.unwrap_or_else(|| errand::open(path, OFlags::PATH, deadline));
        let place = opened.or_timed_out(|| format!("open({path:?})")).map_err(fail)?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = sys::call(|| format!("stat({path:?})"), rustix::fs::statx(&place, c"", flags, StatxFlags::TYPE)).map_err(fail)?;
        let kind = match FileType::from_raw_mode(stat.stx_mode.into()) {
            FileType::Directory => Kind::Directory,
            FileType::RegularFile => Kind::File,
            _ => return Err(fail(sys::Error::new(format!("open({path:?})"), rustix::io::Errno::NOTSUP))),
        };
        let tree = sys::mount::detached_copy(place.as_fd(), Path::new("")).map_err(fail)?;
        Ok(Self { path: path.to_owned(), tree, kind })
    }

    /// Ready to be attached, its owners shown as `owners`' user namespace sees them.
    pub fn ready(self, owners: Option<OwnedFd>) -> Result<OwnedFd, Error> {
        let Self { path, tree, .. } = self;
        let set = Some(MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV);
        let attributes = Attributes { set, private: true, owners: owners.as_ref().map(|fd| fd.as_fd()) };
        match (sys::mount::set_attributes(tree.as_fd(), attributes), owners) {
            (Ok(()), _) => Ok(tree),
            (Err(source), Some(_)) => Err(Error::OwnersNotMapped { path, source }),
            (Err(source), None) => Err(Error::Source { path, source }),
        }
    }

    /// For a sandbox that stands in its user namespace, where it can attach nothing itself.
    pub fn show_in(self, namespace: &OwnedFd, sandbox: rustix::process::Pid) -> Result<(), Error> {
        let path = self.path.clone();
        let fail = |source| Error::Source { path: path.clone(), source };
        let tree = self.ready(Some(sys::namespace::of(sandbox, "user").map_err(fail)?))?;
        let home = Home::here().map_err(fail)?;
        let _visit = home.visit(namespace.as_fd()).map_err(fail)?;
        sys::mount::attach(tree.as_fd(), CWD, Path::new(SOURCE)).map_err(fail)
    }
}
