//! One place. In: where the old mount is. Out: the new one in its stead, or why not.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use shorefast_sys as sys;
use sys::bounded_call::{self, Bounded, Pending};
use sys::mount::{Identity, Propagation};
use sys::mount_table::{Base, MountNamespace};
use sys::{Error, Result};

use crate::replace::find::Place;
use crate::replace::groups::{self, Groups};
use crate::replace::outcome::{Degraded, Primary, Step};
use crate::replace::source::{Source, set_attributes};
use crate::replace::{nested, opening};

/// What goes on from place to place.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    base: &'a Base,
    source: Source<'a>,
    new: BorrowedFd<'a>,
    identity: Identity,
    /// Keeps the old superblock, and so its device number: whoever unmounts the last of it would write back its data, and wait for it.
    held: Option<Pending<()>>,
    groups: Groups,
    degraded: Vec<Degraded>,
    deadline: Instant,
}

/// What became of a place.
#[derive(Debug)]
pub(crate) enum Outcome {
    Replaced(Identity),
    /// The new mount is on top of the old one, or will be.
    Stacked(Identity, Option<Pending<()>>),
    /// The place has changed since it was found.
    Changed(String),
    Degraded(String),
}

impl<'a> Work<'a> {
    pub(crate) fn new(base: &'a Base, new: BorrowedFd<'a>, deadline: Instant) -> Result<Self> {
        let identity = sys::mount::identify(new)?;
        let (source, groups) = (Source::new(new), Groups::default());
        Ok(Self { base, source, new, identity, held: None, groups, degraded: Vec::new(), deadline })
    }

    /// Of the new mount.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Another process has put the new mount there.
    pub(crate) fn is_attached_in(&mut self, namespace: Option<Rc<MountNamespace>>) {
        if let Some(namespace) = namespace {
            self.source.is_attached_in(namespace);
        }
    }

    /// The old superblock.
    pub(crate) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// Of the new superblock.
    fn device(&self) -> (u32, u32) {
        (self.identity.major, self.identity.minor)
    }

    pub(crate) fn finish(mut self, pass: &mut impl FnMut(Step)) -> Vec<Degraded> {
        self.degraded.extend(self.groups.finish(self.base, pass));
        self.degraded
    }
}

pub(crate) fn swap(work: &mut Work<'_>, place: &Place, primary: Primary, pass: &mut impl FnMut(Step)) -> Result<Outcome> {
    if let Some(why) = nested::obstacle(place) {
        return Ok(Outcome::Degraded(why));
    }
    if place.mount.is_id_mapped {
        return Ok(Outcome::Degraded("its owners are mapped, and nobody but its maker knows how: mount it there again".to_owned()));
    }
    let mut copy = match Copy::make(work, place) {
        Ok(copy) => copy,
        Err(error) => return Ok(Outcome::Degraded(format!("the new mount cannot be shown there: {error}"))),
    };
    let of_new = nested::copies_of_new(work.base, place, &mut work.source, work.deadline)?;
    pass(Step::Copied);

    let namespace = &place.namespace;
    let is_known_to_answer = place.table.row(place.mount.parent).is_some_and(|parent| parent.is_local);
    if !is_known_to_answer
        && let Bounded::TimedOut = bounded_call::can_be_entered(namespace.descriptor.as_fd(), opening::within(work.deadline))
    {
        return Ok(Outcome::Degraded("its namespace cannot be entered: the filesystem of its root does not answer".to_owned()));
    }
    let _visit = work.base.home.visit(namespace.descriptor.as_fd())?;
    let top = match opening::open(&place.mount.point, namespace.descriptor.as_fd(), opening::within(work.deadline)) {
        Bounded::Done(top) => top,
        Bounded::Failed(error) => return Ok(Outcome::Changed(format!("it cannot be reached: {error}"))),
        Bounded::TimedOut => return Ok(Outcome::Degraded("a filesystem on the way to it does not answer".to_owned())),
    };
    let found = sys::mount::identify(top.as_fd())?;
    if found != place.mount.identity {
        return Ok(Outcome::Changed("other mounts come and go there".to_owned()));
    }
    if work.held.is_none() {
        work.held = Some(bounded_call::hold(top.as_fd())?);
        pass(Step::Held);
    }
    let prepared = match nested::prepare(place, copy.fd(work.new), of_new, work.deadline) {
        Ok(prepared) => prepared,
        Err(why) => return Ok(Outcome::Degraded(why)),
    };

    match beneath(work, place, &copy, &top)? {
        Beneath::Attached => {
            pass(Step::AttachedBeneath);
            copy.is_attached(work, place);
        }
        Beneath::CameByItself => return take_off(work, place, copy, top, pass),
        Beneath::Impossible if primary == Primary::Required => {
            return Ok(Outcome::Degraded(
                "it is locked, or Linux is older than 6.5: the old mount would stay below the new one".to_owned(),
            ));
        }
        Beneath::Impossible if prepared.is_empty() => return cover(work, place, copy, top, pass),
        Beneath::Impossible => {
            let point = nested::direct(place).map(|row| row.point.display().to_string()).collect::<Vec<_>>().join(", ");
            return Ok(Outcome::Degraded(format!(
                "mounts on it cannot be carried over, because it is locked, or Linux is older than 6.5: unmount {point} there, and it is replaced the next time"
            )));
        }
    }
    let new = copy.fd(work.new);
    // Before anything else is mounted on it or taken from it: each place is replaced by itself, with attributes of its own.
    sys::mount::set_propagation(new, Propagation::Private)?;
    set_attributes(new, place.mount.attributes)?;
    pass(Step::Separated);
    if !prepared.is_empty() {
        nested::carry(&prepared, work.deadline)?;
        pass(Step::NestedCarried);
    }
    if let Err(error) = detach(work, place, &top, pass) {
        // Locked, although another mount could be put beneath it.
        return Ok(Outcome::Degraded(format!("the new mount is below it, but it cannot be unmounted: {error}")));
    }
    let identity = sys::mount::identify(new)?;
    work.regroup(place, new, pass);
    Ok(Outcome::Replaced(identity))
}

/// The mount for a place: the new one itself for the first, copies for the others.
#[derive(Debug)]
enum Copy {
    New,
    Of(OwnedFd),
}

impl Copy {
    fn make(work: &mut Work<'_>, place: &Place) -> Result<Self> {
        let root = place.root();
        let copy = if work.source.is_attached() || !root.as_os_str().is_empty() {
            Self::Of(work.source.copy(work.base, &root, work.deadline)?)
        } else {
            Self::New
        };
        set_attributes(copy.fd(work.new), place.mount.attributes | place.strictest)?;
        Ok(copy)
    }

    fn fd<'a>(&'a self, new: BorrowedFd<'a>) -> BorrowedFd<'a> {
        match self {
            Self::New => new,
            Self::Of(copy) => copy.as_fd(),
        }
    }

    fn is_attached(&mut self, work: &mut Work<'_>, place: &Place) {
        if matches!(self, Self::New) {
            work.source.is_attached_in(Rc::clone(&place.namespace));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beneath {
    Attached,
    /// It is there already: it propagated from another place, or a process before us put it there and was killed.
    CameByItself,
    /// Locked, or Linux is older than 6.5.
    Impossible,
}

fn beneath(work: &Work<'_>, place: &Place, copy: &Copy, top: &OwnedFd) -> Result<Beneath> {
    // The parent may be another one by now.
    let parent = place.table.row(place.mount.identity.id).and_then(|mount| place.table.row(mount.parent));
    if parent.as_ref().is_some_and(|parent| parent.device() == work.device() && parent.point == place.mount.point) {
        return Ok(Beneath::CameByItself);
    }
    let new = copy.fd(work.new);
    // The kernel takes the lock of the directory below, which a process may hold that waits for that directory's server.
    let attached = if parent.is_some_and(|parent| parent.is_local) {
        sys::mount::attach_beneath(new, top.as_fd())
    } else {
        let text = || "move_mount(MOVE_MOUNT_BENEATH)".to_owned();
        bounded_call::attach_beneath(new, top.as_fd(), opening::within(work.deadline)).or_timed_out(text)
    };
    match attached {
        Ok(()) => Ok(Beneath::Attached),
        Err(error) if error.errno() == Errno::INVAL => Ok(Beneath::Impossible),
        Err(error) => Err(error),
    }
}

/// Takes the old mount off a new one that propagated here from another place. The copy is for a locked one.
fn take_off(work: &mut Work<'_>, place: &Place, copy: Copy, top: OwnedFd, pass: &mut impl FnMut(Step)) -> Result<Outcome> {
    if let Some(row) = nested::direct(place).next() {
        return Ok(Outcome::Degraded(format!(
            "a mount on it would be lost: unmount {} there, and it is replaced the next time",
            row.point.display()
        )));
    }
    if detach(work, place, &top, pass).is_err() {
        return cover(work, place, copy, top, pass);
    }
    drop(top);
    let opened = opening::open(&place.mount.point, place.namespace.descriptor.as_fd(), opening::within(work.deadline));
    let new = opened.or_timed_out(|| format!("open({:?})", place.mount.point))?;
    let identity = sys::mount::identify(new.as_fd())?;
    if (identity.major, identity.minor) != work.device() {
        return Ok(Outcome::Changed("other mounts come and go there".to_owned()));
    }
    sys::mount::set_propagation(new.as_fd(), Propagation::Private)?;
    set_attributes(new.as_fd(), place.mount.attributes)?;
    pass(Step::Separated);
    work.regroup(place, new.as_fd(), pass);
    Ok(Outcome::Replaced(identity))
}

/// Detaches the old mount here, and nowhere else.
fn detach(work: &Work<'_>, place: &Place, top: &OwnedFd, pass: &mut impl FnMut(Step)) -> Result<()> {
    if place.mount.peer_group != 0 || place.mount.master != 0 {
        // What is mounted on it would go at its peers, too, before it could be carried over there.
        sys::mount::set_propagation(top.as_fd(), Propagation::Private)?;
        pass(Step::OldSeparated);
    }
    sys::unmount::detach_opened(top.as_fd(), work.base.descriptors.as_fd())?;
    pass(Step::Detached);
    Ok(())
}

/// Puts the new mount on top of the old one, which stays.
fn cover(work: &mut Work<'_>, place: &Place, mut copy: Copy, top: OwnedFd, pass: &mut impl FnMut(Step)) -> Result<Outcome> {
    let new = copy.fd(work.new);
    let identity = sys::mount::identify(new)?;
    // The kernel takes the lock of the old root directory. Whoever waits there for the dead client may have it.
    let attaching = bounded_call::begin_to_attach(new, top.as_fd())?;
    if !sys::deadline::is_readable(attaching.pidfd(), work.deadline.min(Instant::now() + FOR_THE_LOCK)).unwrap_or(false) {
        return Ok(Outcome::Stacked(identity, Some(attaching)));
    }
    match attaching.answer() {
        Some(Ok(())) => {}
        Some(Err(errno)) => return Err(Error::new("move_mount()", errno)),
        None => return Err(Error::new("move_mount()", Errno::INTR)),
    }
    pass(Step::AttachedOnTop);
    copy.is_attached(work, place);
    let new = copy.fd(work.new);
    sys::mount::set_propagation(new, Propagation::Private)?;
    set_attributes(new, place.mount.attributes)?;
    pass(Step::Separated);
    work.regroup(place, new, pass);
    Ok(Outcome::Stacked(identity, None))
}

/// An idle mount is covered within microseconds.
const FOR_THE_LOCK: Duration = Duration::from_millis(100);

impl Work<'_> {
    /// A mount that serves, but does not propagate as before, is reported and otherwise right.
    fn regroup(&mut self, place: &Place, new: BorrowedFd<'_>, pass: &mut impl FnMut(Step)) {
        match self.groups.join(&place.mount, &place.namespace, new) {
            Ok(()) => pass(Step::Grouped),
            Err(error) => self.degraded.push(groups::is_private(place.namespace.inode, place.mount.point.clone(), &error)),
        }
    }
}
