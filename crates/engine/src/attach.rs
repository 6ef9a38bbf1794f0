//! In: the path the caller named. Out: the target, opened before the client starts, and the client's mount attached there once it serves.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use shorefast_sys as sys;
use sys::bounded_call::{self, Bounded, OpenRequest};
use sys::mount::Identity;
use sys::namespace::Home;
use sys::unmount::How;

use crate::error::Error;

/// The directory that the caller named, held by descriptor: changes to the path while the client runs have no effect (no TOCTOU).
#[derive(Debug)]
pub struct Target {
    directory: OwnedFd,
    /// The path as the caller gave it.
    named: PathBuf,
    /// The target's mount namespace, unless it is ours.
    elsewhere: Option<OwnedFd>,
}

/// `namespace`: path of the target's mount namespace, if it is not the caller's. The path may lead through mounts whose servers are dead,
/// so resolving it is bounded by the deadline too.
pub fn open(path: &Path, namespace: Option<&Path>, deadline: Instant) -> Result<Target, Error> {
    let elsewhere = namespace.map(open_namespace).transpose()?;
    let open = || opened(path, bounded_call::open(path, TARGET, deadline));
    let directory = in_namespace(elsewhere.as_ref(), open)?;
    Ok(Target { directory, named: path.to_owned(), elsewhere })
}

/// The same, and opens the host path the client gets to see in the same bounded call.
pub fn open_with_source(path: &Path, source: &Path, deadline: Instant) -> Result<(Target, Bounded<OwnedFd>), Error> {
    let (target, source) =
        bounded_call::open_both(OpenRequest { path, flags: TARGET }, OpenRequest { path: source, flags: OFlags::PATH }, deadline);
    Ok((Target { directory: opened(path, target)?, named: path.to_owned(), elsewhere: None }, source))
}

const TARGET: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

fn opened(path: &Path, call: Bounded<OwnedFd>) -> Result<OwnedFd, Error> {
    call.or_timed_out(|| format!("open({path:?})")).map_err(|source| Error::Target { path: path.to_owned(), source })
}

impl Target {
    /// With symbolic links resolved, as in the mount table.
    pub fn path(&self, deadline: Instant) -> Result<PathBuf, Error> {
        // Our mount table says nothing about mounts of another namespace.
        let is_gone = self.elsewhere.is_none() && is_off_the_tree(&self.directory);
        let again = if is_gone { Some(self.open_again(deadline)?) } else { None };
        let directory = again.as_ref().unwrap_or(&self.directory);
        let link = format!("/proc/thread-self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(directory));
        let path = sys::call(|| format!("readlink({link:?})"), std::fs::read_link(&link));
        path.map_err(|source| Error::Target { path: self.named.clone(), source })
    }

    /// The target's mount namespace, by inode.
    pub fn namespace(&self) -> Result<u64, Error> {
        let path = "/proc/thread-self/ns/mnt";
        let status = self.elsewhere.as_ref().map_or_else(|| rustix::fs::stat(path), rustix::fs::fstat);
        status.map(|status| status.st_ino).map_err(|errno| Error::Record { path: path.into(), source: errno.into() })
    }
}

impl Target {
    /// Resolves the caller's path again: another call may have mounted there since it was opened.
    pub fn refresh(&mut self, deadline: Instant) -> Result<(), Error> {
        self.directory = in_namespace(self.elsewhere.as_ref(), || self.open_again(deadline))?;
        Ok(())
    }

    /// The mount at the target, if there is one.
    pub fn mount(&self) -> Option<Identity> {
        mount_with_root(&self.directory)
    }

    /// Opens what the caller's path leads to now.
    fn open_again(&self, deadline: Instant) -> Result<OwnedFd, Error> {
        opened(&self.named, bounded_call::open(&self.named, TARGET, deadline))
    }
}

/// Whether the directory is in a mount that was unmounted after it was opened: for example the root of a dead mount whose keeper had not
/// finished. A mount attached there would be unreachable. (A directory that was removed does not count: its owner knows.)
fn is_off_the_tree(directory: &OwnedFd) -> bool {
    let mount = sys::mount::identify(directory.as_fd());
    mount.is_ok_and(|mount| sys::mount::attachment_of(&mount).is_ok_and(|place| place.is_none()))
}

/// The mount that this directory is the root of.
fn mount_with_root(directory: &OwnedFd) -> Option<Identity> {
    let flags = rustix::fs::AtFlags::EMPTY_PATH | rustix::fs::AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(directory, c"", flags, rustix::fs::StatxFlags::TYPE).ok()?;
    let is_root = stat.stx_attributes.contains(rustix::fs::StatxAttributes::MOUNT_ROOT);
    is_root.then(|| sys::mount::identify(directory.as_fd()).ok()).flatten()
}

fn open_namespace(path: &Path) -> Result<OwnedFd, Error> {
    let opened = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    sys::call(|| format!("open({path:?})"), opened).map_err(|source| Error::Namespace { path: path.to_owned(), source })
}

/// Runs `act` in the target's namespace.
fn in_namespace<T>(elsewhere: Option<&OwnedFd>, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let Some(namespace) = elsewhere else { return act() };
    let fail = |source| Error::Namespace { path: "-N".into(), source };
    let home = Home::here().map_err(fail)?;
    let _visit = home.visit(namespace.as_fd()).map_err(fail)?;
    act()
}

/// A mount that is visible on the host. Dropping it detaches the mount again.
#[derive(Debug)]
pub struct Attached<'a> {
    identity: Identity,
    target: &'a Target,
    kept: bool,
}

/// Attaches the mount at the target. `clear` is called when the target is the root of another mount, and removes that if it is a dead one
/// of ours; it returns whether it did. If the directory that was opened is no longer in the tree, the path is resolved again: the caller
/// named a path.
pub fn at<'a>(
    mount: &OwnedFd,
    identity: Identity,
    target: &'a Target,
    deadline: Instant,
    clear: impl Fn(Identity) -> bool,
) -> Result<Attached<'a>, Error> {
    let attach = || {
        let mut again = None;
        loop {
            let directory = again.as_ref().unwrap_or(&target.directory);
            let is_in_the_way = mount_with_root(directory).is_some_and(&clear);
            let attached = if is_in_the_way { Ok(()) } else { sys::mount::attach(mount.as_fd(), directory.as_fd(), Path::new("")) };
            match attached {
                Ok(()) if !is_in_the_way => return Ok(()),
                Err(source) if !is_off_the_tree(directory) || Instant::now() >= deadline => {
                    return Err(Error::Attach { path: target.named.clone(), source });
                }
                _ => again = Some(target.open_again(deadline)?),
            }
        }
    };
    in_namespace(target.elsewhere.as_ref(), attach)?;
    Ok(Attached { identity, target, kept: false })
}

impl Attached<'_> {
    pub fn keep(mut self) {
        self.kept = true;
    }
}

/// The path to a mount may lead through other mounts.
const DETACH_WITHIN: Duration = Duration::from_secs(2);

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        if !self.kept {
            // It may have been unmounted already; Drop cannot report an error. Its id is its own: our caller holds it by descriptor.
            let detach =
                || sys::unmount::unmount(&self.identity, How::Detached, Instant::now() + DETACH_WITHIN, || true).map_err(Error::Wait);
            let _ = in_namespace(self.target.elsewhere.as_ref(), detach);
        }
    }
}
