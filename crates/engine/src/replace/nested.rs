//! Mounts on an old mount, which would vanish with it. In: a place. Out: copies of them, and where in the new mount they go.
//!
//! The way to such a mount leads through the old one, whose client answers nothing: it is known only as long as the kernel's cache says
//! so, a second or so after the client's last answer. Where it is not, the place keeps the old mount, and whoever looks after it is told.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use shorefast_sys as sys;
use sys::bounded_call;
use sys::mount_table::{Base, Row};

use crate::replace::find::{Place, relative_root};
use crate::replace::opening;
use crate::replace::source::{self, Source};

/// What is mounted directly on the old mount: the rest comes along with it.
pub(crate) fn direct(place: &Place) -> impl Iterator<Item = &Row> {
    place.nested.iter().filter(|row| row.parent == place.mount.identity.id)
}

/// Whether the place can be replaced at all, and why not.
pub(crate) fn obstacle(place: &Place) -> Option<String> {
    let named =
        |row: &Row, what: &str| Some(format!("{what} {}: unmount that there, and it is replaced the next time", row.point.display()));
    if let Some(row) = direct(place).find(|row| row.point == place.mount.point) {
        return named(row, "another mount covers it at");
    }
    let is_deep = |row: &&Row| row.device() == place.mount.device() && row.parent != place.mount.identity.id;
    place.nested.iter().find(is_deep).and_then(|row| named(row, "the same filesystem is mounted within another one on it, at"))
}

/// Copies of the old filesystem itself within it are copies of the new one. Not for a thread that is away from home.
pub(crate) fn copies_of_new(
    base: &Base,
    place: &Place,
    source: &mut Source<'_>,
    deadline: Instant,
) -> sys::Result<Vec<(PathBuf, OwnedFd)>> {
    let own = direct(place).filter(|row| row.device() == place.mount.device());
    own.map(|row| {
        let copy = source.copy(base, &relative_root(&row.root), deadline)?;
        source::set_attributes(copy.as_fd(), row.attributes)?;
        Ok((row.point.clone(), copy))
    })
    .collect()
}

/// A copy of each, and its directory or file in the new mount, of which `new` is a copy for this place.
pub(crate) fn prepare(
    place: &Place,
    new: BorrowedFd<'_>,
    of_new: Vec<(PathBuf, OwnedFd)>,
    deadline: Instant,
) -> Result<Vec<(OwnedFd, OwnedFd)>, String> {
    let others = direct(place).filter(|row| row.device() != place.mount.device());
    let others = others.map(|row| copy_of(row).map(|copy| (row.point.clone(), copy)));
    let all = of_new.into_iter().map(Ok).chain(others);
    all.map(|one| {
        let (point, copy) = one?;
        let failed = |why: &dyn std::fmt::Display| obstacle_at(&point, why);
        let inside = point.strip_prefix(&place.mount.point).map_err(|_| failed(&"it is not within"))?;
        let target = source::open_inside(new, inside, deadline).map_err(|error| failed(&error))?;
        Ok((copy, target))
    })
    .collect()
}

fn copy_of(row: &Row) -> Result<OwnedFd, String> {
    let failed = |why: &dyn std::fmt::Display| obstacle_at(&row.point, why);
    let opened = opening::open_cached(&row.point).map_err(|_| failed(&"the way to it is no longer known"))?;
    let found = sys::mount::identify(opened.as_fd()).map_err(|error| failed(&error))?;
    if found != row.identity {
        return Err(failed(&"another mount is there by now"));
    }
    sys::mount::detached_tree(opened.as_fd(), Path::new("")).map_err(|error| failed(&error))
}

fn obstacle_at(point: &Path, why: &dyn std::fmt::Display) -> String {
    let point = point.display();
    format!("the mount at {point}, which is on it, cannot be carried over ({why}): unmount that there, and it is replaced the next time")
}

/// Puts the copies onto the new mount, which is attached below the old one by now.
pub(crate) fn carry(prepared: &[(OwnedFd, OwnedFd)], deadline: Instant) -> sys::Result<()> {
    prepared.iter().try_for_each(|(copy, target)| {
        let attached = bounded_call::attach(copy.as_fd(), target.as_fd(), opening::within(deadline));
        attached.or_timed_out(|| "move_mount(nested)".to_owned())
    })
}
