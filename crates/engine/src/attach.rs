//! The caller's target: opened before the client runs, mounted on after it serves.

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

/// The directory that the caller named, held by descriptor: whatever happens to the path while
/// the client runs changes nothing.
#[derive(Debug)]
pub struct Target {
    directory: OwnedFd,
    /// As the caller named it.
    named: PathBuf,
    /// The mount namespace that it is in, unless that is ours.
    elsewhere: Option<OwnedFd>,
}

/// `namespace`: the path of a mount namespace in which the target is, if it is not the caller's. The
/// path may lead through other mounts, whose servers may be dead: that ends by the deadline, too.
pub fn open(path: &Path, namespace: Option<&Path>, deadline: Instant) -> Result<Target, Error> {
    let elsewhere = namespace.map(open_namespace).transpose()?;
    let open = || opened(path, bounded_call::open(path, TARGET, deadline));
    let directory = in_namespace(elsewhere.as_ref(), open)?;
    Ok(Target { directory, named: path.to_owned(), elsewhere })
}

/// The same, and what the client gets to see of the host, for which one way may do.
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
    /// Without symbolic links, as the mount table shows it.
    pub fn path(&self, deadline: Instant) -> Result<PathBuf, Error> {
        // In another namespace, our table does not tell.
        let is_gone = self.elsewhere.is_none() && is_off_the_tree(&self.directory);
        let again = if is_gone { Some(self.open_again(deadline)?) } else { None };
        let directory = again.as_ref().unwrap_or(&self.directory);
        let link = format!("/proc/thread-self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(directory));
        let path = sys::call(|| format!("readlink({link:?})"), std::fs::read_link(&link));
        path.map_err(|source| Error::Target { path: self.named.clone(), source })
    }

    /// The mount namespace that it is in, by inode.
    pub fn namespace(&self) -> Result<u64, Error> {
        let path = "/proc/thread-self/ns/mnt";
        let status = self.elsewhere.as_ref().map_or_else(|| rustix::fs::stat(path), rustix::fs::fstat);
        status.map(|status| status.st_ino).map_err(|errno| Error::Record { path: path.into(), source: errno.into() })
    }
}

impl Target {
    /// What the caller's path leads to now: another call may have mounted there since it was opened.
    pub fn refresh(&mut self, deadline: Instant) -> Result<(), Error> {
        self.directory = in_namespace(self.elsewhere.as_ref(), || self.open_again(deadline))?;
        Ok(())
    }

    /// The mount that is at the target, if there is one.
    pub fn mount(&self) -> Option<Identity> {
        mount_with_root(&self.directory)
    }

    /// What the caller's path leads to now.
    fn open_again(&self, deadline: Instant) -> Result<OwnedFd, Error> {
        opened(&self.named, bounded_call::open(&self.named, TARGET, deadline))
    }
}

/// Whether the directory is in a mount that was unmounted after it was opened: the root of a dead mount, say, whose keeper was not done
/// yet. Nobody finds a mount there any more. (One that was removed is not: that is for its owner to know.)
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

/// Does something where the target is.
fn in_namespace<T>(elsewhere: Option<&OwnedFd>, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let Some(namespace) = elsewhere else { return act() };
    let fail = |source| Error::Namespace { path: "-N".into(), source };
    let home = Home::here().map_err(fail)?;
    let _visit = home.visit(namespace.as_fd()).map_err(fail)?;
    act()
}

/// A mount that everybody sees. Dropped: detached again.
#[derive(Debug)]
pub struct Attached<'a> {
    identity: Identity,
    target: &'a Target,
    kept: bool,
}

/// Attaches the mount at the target. `clear` is asked to take away a mount whose root the target is, if that is a dead one of ours; it
/// says whether it did. If what was opened is not there any more, what the path leads to now counts: the caller named a path.
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

/// A path to a mount may lead through others.
const DETACH_WITHIN: Duration = Duration::from_secs(2);

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        if !self.kept {
            // Somebody may have unmounted it already; there is nobody to tell.
            let detach = || sys::unmount::unmount(&self.identity, How::Detached, Instant::now() + DETACH_WITHIN).map_err(Error::Wait);
            let _ = in_namespace(self.target.elsewhere.as_ref(), detach);
        }
    }
}
