//! Copies of a mount at other places. In: a mount of ours, a place and what its users may do there. Out: a copy of it there, one more line of
//! the mount table; and off again. The filesystem, its client and its record are the original's: a copy has only an [`Entry`], for what
//! the kernel does not know about it.

mod entry;

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use serde::{Deserialize, Serialize};
use shorefast_sys as sys;
use sys::bounded_call;
use sys::mount::Identity;
use sys::unmount::{How, Outcome};

use crate::difference::Difference;
use crate::error::Error;
use crate::record::Record;
use crate::records::Records;
use crate::state::{self, State};
use crate::unmount::{self, Manner};
use crate::{find, text};

pub(crate) use entry::all as entries;
pub use entry::{Access, Entry, read as entry_at};

/// A path below a directory that no link on the way leads out of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Below {
    #[serde(with = "text")]
    pub root: PathBuf,
    /// Relative, and without `.` and `..`.
    #[serde(with = "text")]
    pub inside: PathBuf,
}

impl Below {
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.inside)
    }
}

/// Whether there may be other copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    Shared,
    Alone,
}

/// A copy that is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// The mount that is copied.
    pub staged: Below,
    /// Of that, only this directory: relative, and without `.` and `..`.
    #[serde(with = "text::optional")]
    pub inside: Option<PathBuf>,
    pub target: Below,
    pub access: Access,
    pub sharing: Sharing,
    /// The mount's label must be this one.
    pub label: String,
    /// The group that the files have to belong to.
    pub group: Option<u32>,
}

/// For paths that lead through other mounts, and for mounts whose server does not answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// For a mount that is polite at first: longer than it takes to unmount a client's own.
const ALTOGETHER: Duration = Duration::from_secs(15);

/// Makes the copy; its directory, too. Asked for again, it is there already.
pub fn copy(records: &Records, wanted: &Wanted) -> Result<(), Error> {
    let (record, staged) = staged(records, wanted)?;
    let target = &wanted.target;
    let parent = open_parent(target)?;
    let made = make_directory(&parent, target)?;
    let entry = Entry {
        label: wanted.label.clone(),
        target: target.path(),
        staged: wanted.staged.path(),
        inside: wanted.inside.clone(),
        access: wanted.access,
    };
    let result = attach_copy(records, wanted, &record, &staged, &parent, &entry);
    result.inspect_err(|_| unmake(target, made))
}

fn attach_copy(
    records: &Records,
    wanted: &Wanted,
    record: &Record,
    staged: &OwnedFd,
    parent: &OwnedFd,
    entry: &Entry,
) -> Result<(), Error> {
    let target = &wanted.target;
    let failed = |source| Error::Attach { path: target.path(), source };
    let mut place = open_last(parent, target)?;
    if let Some(mount) = root_of_mount(&place) {
        let differs = entry::read(records, &target.path()).map_or_else(|| vec![Difference::Unknown], |there| there.differences(entry));
        let is_current = (mount.major, mount.minor) == (record.mount.major, record.mount.minor);
        match (differs.is_empty(), is_current) {
            (true, true) => return Ok(()),
            // Of an earlier client of this volume, which has ended: what its users see there are errors.
            (true, false) => {
                let real = real_path(&place, &target.path());
                drop(place);
                take_off(&mount, &real, How::Detached)?;
                place = open_last(parent, target)?;
            }
            (false, _) => return Err(Error::Already { path: target.path(), differs }),
        }
    }
    if wanted.sharing == Sharing::Alone
        && let Some(other) =
            entry::copies_of(records, &entry.staged).into_iter().find(|other| other.target != entry.target && is_mounted(&other.target))
    {
        return Err(Error::Covered {
            path: entry.staged.clone(),
            by: vec![format!("a copy at {}", other.target.display())],
            client_ended: false,
        });
    }
    let copy = sys::mount::detached_copy(staged.as_fd(), Path::new("")).map_err(failed)?;
    let set = (wanted.access == Access::ReadOnly).then_some(MountAttrFlags::MOUNT_ATTR_RDONLY);
    // Private: what is mounted on one copy does not appear on all.
    sys::mount::set_attributes(copy.as_fd(), sys::mount::Attributes { set, private: true, ..Default::default() }).map_err(failed)?;
    // Before the mount: one without an entry would be a stranger's.
    entry::write(records, entry)?;
    sys::mount::attach(copy.as_fd(), place.as_fd(), Path::new("")).map_err(failed).inspect_err(|_| entry::remove(records, &entry.target))
}

/// Takes away what is mounted at the target, if it is ours, and its directory. Nothing there: done.
pub fn remove(records: &Records, target: &Below) -> Result<(), Error> {
    let path = target.path();
    let parent = match open_parent(target) {
        Err(Error::Target { source, .. }) if source.errno() == Errno::NOENT => {
            entry::remove(records, &path);
            return Ok(());
        }
        parent => parent?,
    };
    let end = Instant::now() + ALTOGETHER;
    loop {
        let place = match open_last(&parent, target) {
            Err(Error::Target { source, .. }) if source.errno() == Errno::NOENT => break,
            place => place?,
        };
        let mount = root_of_mount(&place);
        let real = real_path(&place, &path);
        // A descriptor of it would keep it busy.
        drop(place);
        match mount {
            Some(_) if Instant::now() >= end => return Err(Error::UnmountHangs { path }),
            Some(mount) => take_away(records, &mount, &path, &real)?,
            None => match rustix::fs::unlinkat(&parent, name_of(target), AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => break,
                Err(Errno::BUSY) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
                Err(errno) => {
                    return Err(Error::Unmount { path, source: errno.into() });
                }
            },
        }
    }
    entry::remove(records, &path);
    Ok(())
}

/// Unmounts what was copied, unless there is still a copy: its users would lose their client's supervision. Not mounted: done.
pub fn unstage(records: &Records, staged: &Below) -> Result<(), Error> {
    let path = staged.path();
    let copies: Vec<_> = entry::copies_of(records, &path).into_iter().filter(|entry| is_mounted(&entry.target)).collect();
    if !copies.is_empty() {
        let by = copies.iter().map(|entry| format!("a copy at {}", entry.target.display())).collect();
        return Err(Error::Covered { path, by, client_ended: false });
    }
    match unmount::unmount(records, &path, Manner::Polite) {
        Err(Error::NotOurs { .. }) => Ok(()),
        result => result.map(drop),
    }
}

/// Entries of copies that were unmounted by others. A young one may be of a copy that is just being made.
pub fn forget_stale(records: &Records) {
    for entry in entry::older_than(records, YOUNG) {
        let opened = bounded_call::open(&entry.target, DIRECTORY, Instant::now() + PATIENCE);
        let is_gone = match opened {
            bounded_call::Bounded::Done(place) => root_of_mount(&place).is_none(),
            bounded_call::Bounded::Failed(error) => matches!(error.errno(), Errno::NOENT | Errno::NOTDIR),
            bounded_call::Bounded::TimedOut => false,
        };
        if is_gone {
            entry::remove(records, &entry.target);
        }
    }
}

/// From an entry to its mount it takes milliseconds.
const YOUNG: Duration = Duration::from_secs(60);

fn take_away(records: &Records, mount: &Identity, path: &Path, real: &Path) -> Result<(), Error> {
    if records.by_mount(mount.id, mount.unique).is_some_and(|record| Identity::from(record.mount) == *mount) {
        return unmount::unmount(records, path, Manner::Polite).map(drop);
    }
    if entry::read(records, path).is_none() {
        return Err(Error::NotOurs { path: path.to_owned() });
    }
    take_off(mount, real, How::IfUnused)
}

/// As in the mount table: the root directory may be reached through a link.
fn real_path(place: &OwnedFd, path: &Path) -> PathBuf {
    let link = format!("/proc/thread-self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(place));
    std::fs::read_link(link).unwrap_or_else(|_| path.to_owned())
}

fn take_off(mount: &Identity, path: &Path, how: How) -> Result<(), Error> {
    let failed = |error: sys::Error| Error::Unmount { path: path.to_owned(), source: error.errno().into() };
    // Before Linux 6.8 another mount may have got its number, but not at its place: the caller's lock keeps others away from there.
    let is_ours = || sys::mount::attachment_of(mount).is_ok_and(|found| found.is_some_and(|found| found.place == path));
    let outcome = match sys::unmount::unmount(mount, how, Instant::now() + PATIENCE, is_ours) {
        // Its server does not answer.
        Err(error) if error.errno() == Errno::TIMEDOUT => sys::unmount::unmount(mount, How::Detached, Instant::now() + PATIENCE, is_ours),
        outcome => outcome,
    };
    match outcome.map_err(failed)? {
        Outcome::Unmounted | Outcome::NotHere => Ok(()),
        Outcome::Covered => Err(Error::Covered { path: path.to_owned(), by: Vec::new(), client_ended: false }),
    }
}

/// The mount that is to be copied, if it is there and served: a copy of anything else would be an empty directory.
fn staged(records: &Records, wanted: &Wanted) -> Result<(Record, OwnedFd), Error> {
    let path = wanted.staged.path();
    let gone = || Error::NotOurs { path: path.clone() };
    check(&wanted.staged)?;
    let record = find::find(records, &path)?;
    if record.label.as_deref() != Some(&wanted.label) || state::of(records, &record) != Some(State::Serving) {
        return Err(gone());
    }
    // All copies have the same client, and that has one group.
    if let (Some(asked), Some(made_of)) = (wanted.group, &record.made_of)
        && !made_of.has_group(asked)
    {
        return Err(Error::OtherGroup { path, asked });
    }
    let opened = bounded_call::open(&path, OFlags::PATH | OFlags::DIRECTORY, Instant::now() + PATIENCE);
    let opened = opened.or_timed_out(|| format!("open({path:?})")).map_err(|source| Error::Target { path: path.clone(), source })?;
    if root_of_mount(&opened).is_none_or(|mount| mount != Identity::from(record.mount)) {
        return Err(gone());
    }
    match &wanted.inside {
        Some(inside) => directory_of(&opened, inside, &path).map(|opened| (record, opened)),
        None => Ok((record, opened)),
    }
}

/// A directory of a mount. Whoever writes to that chooses no other by a link.
fn directory_of(mount: &OwnedFd, inside: &Path, staged: &Path) -> Result<OwnedFd, Error> {
    let resolve = WITHOUT_LINKS | ResolveFlags::NO_XDEV;
    let opened = bounded_call::open_below_with(mount.as_fd(), inside, DIRECTORY, resolve, Instant::now() + PATIENCE);
    opened.or_timed_out(|| format!("open({inside:?})")).map_err(|source| Error::SubDirectory { path: staged.join(inside), source })
}

/// That the path exists, and no link is on the way.
pub fn check(below: &Below) -> Result<(), Error> {
    let parent = open_parent(below)?;
    open_last(&parent, below).map(drop)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    Now,
    Before,
}

/// Makes the directory itself, not those above it.
pub fn make(below: &Below) -> Result<Made, Error> {
    make_directory(&open_parent(below)?, below)
}

/// After a failure. With something mounted on it or in it, it stays.
pub fn unmake(below: &Below, made: Made) {
    if let (Made::Now, Ok(parent)) = (made, open_parent(below)) {
        let _ = rustix::fs::unlinkat(&parent, name_of(below), AtFlags::REMOVEDIR);
    }
}

fn make_directory(parent: &OwnedFd, below: &Below) -> Result<Made, Error> {
    match rustix::fs::mkdirat(parent, name_of(below), Mode::from_raw_mode(0o750)) {
        Ok(()) => Ok(Made::Now),
        Err(Errno::EXIST) => Ok(Made::Before),
        Err(errno) => Err(target_error(below, errno)),
    }
}

fn name_of(below: &Below) -> &Path {
    below.inside.file_name().map_or(Path::new("."), Path::new)
}

fn target_error(below: &Below, errno: Errno) -> Error {
    Error::Target { path: below.path(), source: sys::Error::new(format!("openat2({:?})", below.inside), errno) }
}

/// The directory that the path is in.
fn open_parent(below: &Below) -> Result<OwnedFd, Error> {
    let failed = |errno| target_error(below, errno);
    let root = bounded_call::open(&below.root, OFlags::PATH | OFlags::DIRECTORY, Instant::now() + PATIENCE);
    let root = root.or_timed_out(|| format!("open({:?})", below.root)).map_err(|source| Error::Target { path: below.path(), source })?;
    match below.inside.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => rustix::fs::openat2(&root, parent, DIRECTORY, Mode::empty(), WITHOUT_LINKS).map_err(failed),
        None => Ok(root),
    }
}

fn open_last(parent: &OwnedFd, below: &Below) -> Result<OwnedFd, Error> {
    rustix::fs::openat2(parent, name_of(below), DIRECTORY, Mode::empty(), WITHOUT_LINKS).map_err(|errno| target_error(below, errno))
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const WITHOUT_LINKS: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// The mount that this directory is the root of.
fn root_of_mount(directory: &OwnedFd) -> Option<Identity> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(directory, c"", flags, rustix::fs::StatxFlags::TYPE).ok()?;
    let is_root = stat.stx_attributes.contains(rustix::fs::StatxAttributes::MOUNT_ROOT);
    is_root.then(|| sys::mount::identify(directory.as_fd()).ok()).flatten()
}

pub(crate) fn is_root_of_mount(directory: &OwnedFd) -> bool {
    root_of_mount(directory).is_some()
}

fn is_mounted(path: &Path) -> bool {
    mount_at(path).is_some()
}

/// The topmost mount there.
pub(crate) fn mount_at(path: &Path) -> Option<Identity> {
    let opened = bounded_call::open(path, DIRECTORY, Instant::now() + PATIENCE);
    opened.or_timed_out(String::new).ok().and_then(|opened| root_of_mount(&opened))
}
