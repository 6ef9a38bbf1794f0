//! The caller's target: opened before the client runs, mounted on after it serves.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use shorefast_sys as sys;
use sys::mount::Identity;

use crate::error::Error;

/// The directory that the caller named, held by descriptor: whatever happens to the path while
/// the client runs changes nothing.
#[derive(Debug)]
pub struct Target {
    directory: OwnedFd,
    /// Without symbolic links, as the mount table will show it.
    pub path: PathBuf,
}

pub fn open(path: &Path) -> Result<Target, Error> {
    let fail = |source| Error::Target { path: path.to_owned(), source };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = sys::call(|| format!("open({path:?})"), rustix::fs::open(path, flags, Mode::empty())).map_err(fail)?;
    let link = format!("/proc/thread-self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&directory));
    let path = sys::call(|| format!("readlink({link:?})"), std::fs::read_link(&link)).map_err(fail)?;
    Ok(Target { directory, path })
}

/// A mount that everybody sees. Dropped: detached again.
#[derive(Debug)]
pub struct Attached {
    identity: Identity,
    kept: bool,
}

pub fn at(mount: &OwnedFd, identity: Identity, target: &Target) -> Result<Attached, Error> {
    let attached = sys::mount::attach(mount.as_fd(), target.directory.as_fd(), Path::new(""));
    attached.map_err(|source| Error::Attach { path: target.path.clone(), source })?;
    Ok(Attached { identity, kept: false })
}

impl Attached {
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.kept {
            // Somebody may have unmounted it already; there is nobody to tell.
            let _ = sys::mount::detach(&self.identity);
        }
    }
}
