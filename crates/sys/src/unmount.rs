//! Unmounts exactly one mount, and none that others have mounted on top of it. In: the mount's [`Identity`] and a
//! deadline. Out: an [`Outcome`].
//!
//! umount2(2) cannot name a mount: it takes a path and follows it to the topmost mount there, also through a descriptor
//! of a covered mount. So between our check and the unmount, another mount can cover ours (TOCTOU). The solution is
//! MNT_EXPIRE, which takes two calls: the first marks the topmost mount, the second unmounts it only if it is marked,
//! unused and uncovered. Between the two we check that ours is still the topmost. A mount that arrives after that check
//! is not marked, so the second call only marks it, and unmounts nothing.
//!
//! MNT_EXPIRE refuses a mount that is in use. For those there are MNT_DETACH and MNT_FORCE, which know no mark: there
//! the race between the last check and the unmount remains, and a mount on top of ours would be unmounted instead
//! (docs/KERNEL.md).
//!
//! Invariant for callers: no two processes do this to the same mount at the same time, because each would act on the
//! other's marks.

use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, UnmountFlags};

use crate::bounded_call::{self, Bounded};
use crate::error::{Error, Result, call};
use crate::mount::{self, Attachment, Identity};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Only if it is unused: EBUSY otherwise.
    IfUnused,
    /// Pending requests to its server are aborted. For filesystems that the kernel implements itself.
    Forced,
    /// Invisible now, unmounted when it is no longer used.
    Detached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Unmounted,
    /// It is not attached in this mount namespace.
    NotHere,
    /// Something is mounted on it, or below it. Nothing was done.
    Covered,
}

/// Unmounts this mount in the calling thread's mount namespace. ETIMEDOUT: the deadline passed.
///
/// `is_ours`: whether what has just been seen in the mount table was the caller's mount, and not another one that the
/// kernel has given the same ids to (before 6.8).
pub fn unmount(mount: &Identity, how: How, deadline: Instant, is_ours: impl Fn() -> bool) -> Result<Outcome> {
    loop {
        let Some(attachment) = mount::attachment_of(mount)?.filter(|_| is_ours()) else { return Ok(Outcome::NotHere) };
        if mount::has_children(mount)? {
            return Ok(Outcome::Covered);
        }
        let point = Point::open(&attachment.place, deadline)?;
        if !point.leads_to(mount) {
            // It was moved since we looked it up, or is covered by now.
            if Instant::now() >= deadline {
                return Err(Error::new(format!("umount2({:?})", attachment.place), Errno::TIMEDOUT));
            }
            continue;
        }
        let outcome = match how {
            How::IfUnused => expire(mount, &attachment, &point, deadline, &is_ours)?,
            How::Forced => Some(at_once(mount, &point, UnmountFlags::FORCE, deadline, &is_ours)?),
            How::Detached => Some(at_once(mount, &point, UnmountFlags::DETACH, deadline, &is_ours)?),
        };
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
    }
}

/// Any path lookup through a mount clears its mark, so pause between attempts.
const PAUSE: Duration = Duration::from_micros(200);

/// Marks it, and unmounts it if it is still marked. Before every call ours was seen to be the topmost mount. `None`: it
/// was moved meanwhile.
fn expire(
    mount: &Identity,
    attachment: &Attachment,
    point: &Point,
    deadline: Instant,
    is_ours: &impl Fn() -> bool,
) -> Result<Option<Outcome>> {
    for tries in 0.. {
        if tries > 1 {
            std::thread::sleep(PAUSE);
        }
        let answer = point.unmount(UnmountFlags::EXPIRE, deadline);
        match (&answer, mount::attachment_of(mount)?.filter(|_| is_ours())) {
            (Bounded::Done(()), _) => return Ok(Some(Outcome::Unmounted)),
            // Already detached from the tree, but writing back its data to the server blocks.
            (Bounded::TimedOut, None) => return Ok(Some(Outcome::Unmounted)),
            (_, None) => return Ok(Some(Outcome::NotHere)),
            (_, Some(now)) if now.place != attachment.place => return Ok(None),
            _ => {}
        }
        if mount::has_children(mount)? {
            // The mark may be on the mount that covers ours. Opening that clears it.
            drop(bounded_call::open(&attachment.place, OFlags::PATH | OFlags::NOFOLLOW, deadline));
            return Ok(Some(Outcome::Covered));
        }
        match answer {
            Bounded::Failed(error) if error.errno() != Errno::AGAIN => return Err(error),
            Bounded::TimedOut => return Err(Error::new(point.text(UnmountFlags::EXPIRE), Errno::TIMEDOUT)),
            _ if Instant::now() >= deadline => break,
            _ => {}
        }
    }
    Err(Error::new(point.text(UnmountFlags::EXPIRE), Errno::BUSY))
}

fn at_once(mount: &Identity, point: &Point, flags: UnmountFlags, deadline: Instant, is_ours: &impl Fn() -> bool) -> Result<Outcome> {
    if mount::has_children(mount)? {
        return Ok(Outcome::Covered);
    }
    if !is_ours() {
        return Ok(Outcome::NotHere);
    }
    let answer = point.unmount(flags, deadline);
    match (answer, mount::attachment_of(mount)?.filter(|_| is_ours())) {
        (Bounded::Done(()) | Bounded::TimedOut, None) => Ok(Outcome::Unmounted),
        (Bounded::Failed(_), None) => Ok(Outcome::NotHere),
        (Bounded::Failed(error), Some(_)) => Err(error),
        (Bounded::Done(()), Some(_)) => Err(Error::new(point.text(flags), Errno::BUSY)),
        (Bounded::TimedOut, Some(_)) => Err(Error::new(point.text(flags), Errno::TIMEDOUT)),
    }
}

/// A mount point, held by its parent directory. A descriptor of the mount itself would make it busy, and the kernel
/// refuses to rename or remove a mount point.
struct Point {
    directory: OwnedFd,
    name: CString,
}

impl Point {
    fn open(place: &Path, deadline: Instant) -> Result<Self> {
        let parent = place.parent().unwrap_or(place);
        let name = place.file_name().unwrap_or(".".as_ref());
        let opened = bounded_call::open(parent, OFlags::PATH | OFlags::DIRECTORY, deadline);
        Ok(Self { directory: opened.or_timed_out(|| format!("open({parent:?})"))?, name: crate::c_string(name)? })
    }

    /// Whether this mount is the topmost one here. Uses only the kernel's caches; if they do not suffice, trusts the
    /// mount table, which was just read, because this must not wait for a server.
    fn leads_to(&self, mount: &Identity) -> bool {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::CACHED | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&self.directory, self.name.as_c_str(), flags, Mode::empty(), resolve) {
            Ok(top) => mount::identify(top.as_fd()).is_ok_and(|found| found == *mount),
            Err(_) => true,
        }
    }

    fn unmount(&self, flags: UnmountFlags, deadline: Instant) -> Bounded<()> {
        bounded_call::unmount(self.directory.as_fd(), &self.name, flags | UnmountFlags::NOFOLLOW, deadline)
    }

    fn text(&self, flags: UnmountFlags) -> String {
        format!("umount2({:?}, {flags:?})", self.name)
    }
}

/// Detaches the mount whose root is open as `root`, or, if something was mounted on it since, that. For a thread that
/// shares its working directory with no other ([`crate::namespace::Home::visit`]): it becomes `descriptors`, our
/// /proc/thread-self/fd, because the mount's namespace may have no /proc.
pub fn detach_opened(root: BorrowedFd<'_>, descriptors: BorrowedFd<'_>) -> Result<()> {
    let name = root.as_raw_fd().to_string();
    call(|| "fchdir(descriptors)".into(), rustix::process::fchdir(descriptors))?;
    call(|| "umount2(MNT_DETACH)".into(), rustix::mount::unmount(name.as_str(), UnmountFlags::DETACH))
}

/// Aborts a mount's FUSE connection: every pending request fails, none hangs. False: the mount is gone. `is_ours`: as
/// for [`unmount`].
pub fn abort_fuse(mount: &Identity, is_ours: impl Fn() -> bool) -> Result<bool> {
    let is_attached = || Ok::<_, Error>(mount::attachment_of(mount)?.is_some_and(|_| is_ours()));
    // The device number belongs to the mount as long as that exists. It exists before and after the open, so also
    // during it, and the opened file keeps referring to this connection.
    if !is_attached()? {
        return Ok(false);
    }
    let abort = Abort::of(mount.minor)?;
    if !is_attached()? {
        return Ok(false);
    }
    abort.carry_out().map(|()| true)
}

/// The same by device number. The caller must hold the mount or its mount namespace: otherwise the number could have
/// been reused by another connection.
pub fn abort_connection(minor: u32) -> Result<()> {
    Abort::of(minor)?.carry_out()
}

/// The connection's abort file. Opened through a fusectl mount of our own, because not every host has one at
/// /sys/fs/fuse.
struct Abort {
    file: OwnedFd,
    path: String,
}

impl Abort {
    fn of(minor: u32) -> Result<Self> {
        let control = mount::new_filesystem("fusectl", &[], MountAttrFlags::empty())?;
        let path = format!("{minor}/abort");
        let file = rustix::fs::openat(&control, &path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        Ok(Self { file: call(|| format!("open(fusectl, {path:?})"), file)?, path })
    }

    fn carry_out(&self) -> Result<()> {
        call(|| format!("write(fusectl, {:?})", self.path), rustix::io::write(&self.file, b"1")).map(drop)
    }
}
