//! In: a plan whose secrets may be newer than those of the live mount that it describes. Out: the client's own files have the new content. Whether
//! the client reads them again, and when, is up to the client: sshfs does when it connects again.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid};
use shorefast_sandbox::launcher::files::{self, ReadFile};
use shorefast_sandbox::spec::{Content, Spec};

use crate::difference::Difference;
use crate::error::Error;
use crate::existing;
use crate::plan::ClientPlan;
use crate::records::Records;

/// An error unless the plan's mount is there. A filesystem that the kernel serves has no client that could read anything.
pub fn secrets(records: &Records, plan: &ClientPlan) -> Result<(), Error> {
    let path = || plan.target.clone();
    let Some((record, differs)) = existing::compare(records, plan)? else { return Err(Error::NotOurs { path: path() }) };
    // A definition may change while its mounts live.
    if differs.iter().any(|difference| !matches!(difference, Difference::Client | Difference::Image)) {
        return Err(Error::Already { path: path(), differs });
    }
    let Some(init) = record.init else { return Ok(()) };
    let mut files = plan.spec.files.clone();
    files.retain(|file| matches!(file.content, Content::Secret { .. }));
    let spec = Spec { files, ..plan.spec.clone() };
    let read = files::read_given(&spec, Instant::now() + plan.timeout).map_err(Error::Sandbox)?;
    // Before it is opened, because that may never return if the pid is another process's now, and after it.
    let is_ours = || if init.is_alive() { Ok(()) } else { Err(Error::NotOurs { path: path() }) };
    is_ours()?;
    let root = open_root(init.pid).map_err(|source| Error::HostFile { path: path(), source })?;
    is_ours()?;
    read.iter().try_for_each(|file| {
        replace(&root, file).map_err(|source| Error::HostFile { path: std::ffi::OsStr::from_bytes(&file.inside).into(), source })
    })
}

fn open_root(init: i32) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(format!("/proc/{init}/root"), flags, Mode::empty())?)
}

/// The sandbox is hostile: no link is followed and no other mount entered, so all that is written to is its own scratch space.
const INSIDE: ResolveFlags =
    ResolveFlags::IN_ROOT.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_XDEV);
/// More than any secret has.
const LIMIT: u64 = 2 << 20;

/// In one step: the client reads the old content or the new.
fn replace(root: &OwnedFd, file: &ReadFile) -> io::Result<()> {
    let inside = Path::new(std::ffi::OsStr::from_bytes(&file.inside));
    let (Some(parent), Some(name)) = (inside.parent(), inside.file_name()) else { return Err(io::ErrorKind::InvalidInput.into()) };
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::openat2(root, parent, directory, Mode::empty(), INSIDE)?;
    let plain = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let there = File::from(rustix::fs::openat2(&parent, name, plain, Mode::empty(), INSIDE)?);
    let status = rustix::fs::fstat(&there)?;
    let mut content = Vec::new();
    there.take(LIMIT).read_to_end(&mut content)?;
    if content == file.content {
        return Ok(());
    }
    let mut new = name.to_owned();
    new.push(".new");
    let _ = rustix::fs::unlinkat(&parent, &new, AtFlags::empty());
    let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut written = File::from(rustix::fs::openat2(&parent, &new, create, Mode::from_raw_mode(0o400), INSIDE)?);
    written.write_all(&file.content)?;
    rustix::fs::fchown(&written, Some(Uid::from_raw(status.st_uid)), Some(Gid::from_raw(status.st_gid)))?;
    rustix::fs::fchmod(&written, Mode::from_raw_mode(file.mode))?;
    Ok(rustix::fs::renameat(&parent, &new, &parent, name)?)
}
