//! Finds the places of a superblock. In: its device number. Out: [`Place`]s, that of the record first.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use rustix::mount::MountAttrFlags;
use shorefast_sys as sys;
use sys::Result;
use sys::mount::Identity;
use sys::mount_table::{self, Base, MountNamespace, Row, Table};

use crate::replace::outcome::Old;

/// Where the old superblock is mounted and to be seen.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) namespace: Rc<MountNamespace>,
    pub(crate) table: Rc<Table>,
    pub(crate) mount: Row,
    /// Everything mounted on it, directly or not.
    pub(crate) nested: Vec<Row>,
    /// What it is mounted on. `None`: out of sight.
    pub(crate) parent: Option<Row>,
    /// What the new mount may be at most while it propagates from here to other places: they see it before we can change it there.
    pub(crate) strictest: MountAttrFlags,
}

impl Place {
    /// Namespace and mount.
    pub(crate) fn key(&self) -> (u64, u64) {
        (self.namespace.inode, self.mount.identity.id)
    }

    /// The part of the filesystem that it shows, relative to its root. The kernel marks a directory that it thinks is deleted, because
    /// somebody looked for it while the client was dead.
    pub(crate) fn root(&self) -> PathBuf {
        relative_root(&self.mount.root)
    }
}

pub(crate) fn relative_root(root: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    let bytes = root.as_os_str().as_bytes();
    let bytes = bytes.strip_suffix(b"//deleted").unwrap_or(bytes);
    let start = bytes.iter().position(|byte| *byte != b'/').unwrap_or(bytes.len());
    PathBuf::from(std::ffi::OsStr::from_bytes(&bytes[start..]))
}

/// What a look at all namespaces has found.
#[derive(Debug)]
pub(crate) struct Found {
    /// Those that still show the old superblock: not those that the new one covers.
    pub(crate) places: Vec<Place>,
    /// Where the new mount itself is attached, if it is: a process before us may have been killed.
    pub(crate) new: Option<Rc<MountNamespace>>,
}

pub(crate) fn places(base: &Base, old: &Old, new: Identity, deadline: Instant) -> Result<Found> {
    let new_device = (new.major, new.minor);
    let devices = [(old.identity.major, old.identity.minor), new_device];
    let mut found = Found { places: Vec::new(), new: None };
    for namespace in mount_table::namespaces(deadline)? {
        let namespace = Rc::new(namespace);
        // A namespace that cannot be read has just ended, or is one that we may not change.
        let Ok(table) = namespace.table(base).map(Rc::new) else { continue };
        let Ok(mounts) = table.mounts_of(&devices) else { continue };
        for mount in mounts {
            if mount.device() == new_device {
                found.new = found.new.or_else(|| (mount.identity == new).then(|| Rc::clone(&namespace)));
                continue;
            }
            if old.before.is_some_and(|before| mount.identity.unique && mount.identity.id >= before) {
                continue;
            }
            let Ok(nested) = table.below(&mount.identity) else { continue };
            let parent = table.row(mount.parent);
            let (namespace, table) = (Rc::clone(&namespace), Rc::clone(&table));
            found.places.push(Place { namespace, table, mount, nested, parent, strictest: MountAttrFlags::empty() });
        }
    }
    let places = &mut found.places;
    places.retain(|place| !is_covered_by(place, new_device));
    leave_to_others(places);
    restrict(places);
    let is_primary = |place: &Place| place.mount.identity == old.identity && place.namespace.inode == old.namespace;
    // After that, whole filesystems: directories of it are copied from those.
    places.sort_by_key(|place| (!is_primary(place), !place.root().as_os_str().is_empty()));
    Ok(found)
}

/// Whether the topmost mount at its root is of this superblock.
fn is_covered_by(place: &Place, device: (u32, u32)) -> bool {
    place.nested.iter().any(|row| row.parent == place.mount.identity.id && row.point == place.mount.point && row.device() == device)
}

/// A place within another one is part of what is carried over there.
fn leave_to_others(places: &mut Vec<Place>) {
    let within: HashSet<_> = places
        .iter()
        .flat_map(|place| {
            let inside = place.nested.iter().filter(|row| row.point != place.mount.point && row.device() == place.mount.device());
            inside.map(|row| (place.namespace.inode, row.identity.id)).collect::<Vec<_>>()
        })
        .collect();
    places.retain(|place| !within.contains(&place.key()));
}

/// A mount that is attached to a shared parent appears at the parent's peers and slaves, too, with its attributes. None of those may
/// see more than before, not for a moment.
fn restrict(places: &mut [Place]) {
    let receives = |place: &Place| place.parent.as_ref().is_none_or(|parent| parent.peer_group != 0 || parent.master != 0);
    let strictest = places
        .iter()
        .filter(|place| receives(place))
        .fold(MountAttrFlags::empty(), |all, place| all | place.mount.attributes & RESTRICTIONS);
    for place in places.iter_mut().filter(|place| place.parent.as_ref().is_none_or(|parent| parent.peer_group != 0)) {
        place.strictest = strictest;
    }
}

const RESTRICTIONS: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY
    .union(MountAttrFlags::MOUNT_ATTR_NOSUID)
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC)
    .union(MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_a_bind_is_relative_and_not_deleted() {
        let rows = [("/", ""), ("/sub", "sub"), ("/a/b//deleted", "a/b"), ("//deleted", ""), ("/a//deletedx", "a//deletedx")];
        for (root, expected) in rows {
            assert_eq!(relative_root(Path::new(root)), PathBuf::from(expected), "{root}");
        }
    }
}
