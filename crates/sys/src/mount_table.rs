//! The mounts of every mount namespace of the machine: nothing in, [`MountNamespace`]s and [`Row`]s out. No filesystem is
//! called.
//!
//! From Linux 6.12 the kernel lists the namespaces, and tells of the mounts of each. Before, the namespaces are those of the
//! processes, and each has to be entered for its table.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use crate::bounded_call;
use crate::error::{Result, call};
use crate::mount::Identity;
use crate::mountinfo;
use crate::namespace::{self, Home};
use crate::statmount::{self, Mounted};

/// A mount namespace, which the descriptor keeps alive.
#[derive(Debug)]
pub struct MountNamespace {
    pub descriptor: OwnedFd,
    pub inode: u64,
    /// The kernel's own id of it (6.12).
    id: Option<u64>,
}

/// All namespaces that we may change. Before 6.12: those of all visible processes.
pub fn namespaces(deadline: Instant) -> Result<Vec<MountNamespace>> {
    let known = |(descriptor, id): (OwnedFd, u64)| {
        let inode = call(|| "fstat(namespace)".into(), rustix::fs::fstat(&descriptor))?.st_ino;
        Ok(MountNamespace { descriptor, inode, id: Some(id) })
    };
    match namespace::all_mounts() {
        Ok(all) => all.into_iter().map(known).collect(),
        Err(_) => {
            let all = bounded_call::mounts_of_processes(deadline)?;
            Ok(all.into_iter().map(|(inode, descriptor)| MountNamespace { descriptor, inode, id: None }).collect())
        }
    }
}

/// One mount.
#[derive(Clone, Debug)]
pub struct Row {
    pub identity: Identity,
    /// The parent mount's id, unique if the mount's own is.
    pub parent: u64,
    /// The directory of the filesystem that it shows.
    pub root: PathBuf,
    /// Where it is, as seen from the namespace's root.
    pub point: PathBuf,
    pub attributes: MountAttrFlags,
    /// Its owners are mapped; only the kernel knows how.
    pub is_id_mapped: bool,
    /// 0: in none.
    pub peer_group: u64,
    /// The group that it receives mounts from. 0: none.
    pub master: u64,
    pub unbindable: bool,
    /// The filesystem depends on this machine only.
    pub is_local: bool,
}

impl Row {
    pub fn device(&self) -> (u32, u32) {
        (self.identity.major, self.identity.minor)
    }
}

/// A mount table to query. If it is a copy, all answers are about the moment when it was made.
#[derive(Debug)]
pub struct Table(Way);

#[derive(Debug)]
enum Way {
    /// The kernel is asked about each mount, by the namespace's id.
    Asked(u64),
    /// All of it, read while we were in the namespace.
    Read(Vec<Row>),
}

/// Descriptors of its own /proc for a thread that is in another mount namespace.
#[derive(Debug)]
pub struct Base {
    pub home: Home,
    pub proc: OwnedFd,
    /// /proc/thread-self/fd
    pub descriptors: OwnedFd,
}

impl Base {
    pub fn here() -> Result<Self> {
        let open = |path: &str| {
            let opened = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            call(|| format!("open({path:?})"), opened)
        };
        Ok(Self { home: Home::here()?, proc: open("/proc")?, descriptors: open("/proc/thread-self/fd")? })
    }
}

impl MountNamespace {
    pub fn table(&self, base: &Base) -> Result<Table> {
        if let Some(id) = self.id {
            return Ok(Table(Way::Asked(id)));
        }
        let _visit = base.home.visit(self.descriptor.as_fd())?;
        match statmount::below(None, statmount::ALL, 0) {
            Err(error) if error.errno() == Errno::NOSYS => {
                let entries = mountinfo::read_in(base.proc.as_fd())?;
                Ok(Table(Way::Read(entries.into_iter().map(Row::from).collect())))
            }
            ids => Ok(Table(Way::Read(rows(None, ids?)))),
        }
    }
}

impl Table {
    /// The mounts of some superblocks, by device number.
    pub fn mounts_of(&self, devices: &[(u32, u32)]) -> Result<Vec<Row>> {
        match &self.0 {
            Way::Asked(namespace) => {
                let is_wanted = |id: &u64| statmount::device(Some(*namespace), *id).is_ok_and(|found| devices.contains(&found));
                let ids = statmount::below(Some(*namespace), statmount::ALL, 0)?;
                Ok(rows(Some(*namespace), ids.into_iter().filter(is_wanted).collect()))
            }
            Way::Read(rows) => Ok(rows.iter().filter(|row| devices.contains(&row.device())).cloned().collect()),
        }
    }

    /// `None`: there is none, or it is out of sight.
    pub fn row(&self, id: u64) -> Option<Row> {
        match &self.0 {
            Way::Asked(namespace) => rows(Some(*namespace), vec![id]).pop(),
            Way::Read(rows) => rows.iter().find(|row| row.identity.id == id).cloned(),
        }
    }

    /// All mounts on or below a mount, recursively.
    pub fn below(&self, mount: &Identity) -> Result<Vec<Row>> {
        match &self.0 {
            Way::Asked(namespace) => Ok(rows(Some(*namespace), statmount::below(Some(*namespace), mount.id, 0)?)),
            Way::Read(rows) => {
                let mut found = Vec::<Row>::new();
                let mut from = vec![mount.id];
                while let Some(parent) = from.pop() {
                    let on_it = rows.iter().filter(|row| row.parent == parent && row.identity.id != parent);
                    from.extend(on_it.clone().map(|row| row.identity.id));
                    found.extend(on_it.cloned());
                }
                Ok(found)
            }
        }
    }
}

/// Without those that are gone meanwhile.
fn rows(namespace: Option<u64>, ids: Vec<u64>) -> Vec<Row> {
    ids.into_iter().filter_map(|id| Some(Row::asked(id, statmount::mounted(namespace, id).ok()?))).collect()
}

impl Row {
    fn asked(id: u64, mount: Mounted) -> Self {
        Self {
            identity: Identity { id, unique: true, major: mount.major, minor: mount.minor },
            parent: mount.parent,
            root: mount.root,
            point: mount.point,
            attributes: MountAttrFlags::from_bits_retain(mount.attributes as u32),
            is_id_mapped: mount.attributes & u64::from(MountAttrFlags::MOUNT_ATTR_IDMAP.bits()) != 0,
            peer_group: mount.peer_group,
            master: mount.master,
            unbindable: mount.propagation & libc::MS_UNBINDABLE != 0,
            is_local: statmount::is_local(mount.major, mount.magic),
        }
    }
}

impl From<mountinfo::Entry> for Row {
    fn from(entry: mountinfo::Entry) -> Self {
        let flags = [
            ("ro", MountAttrFlags::MOUNT_ATTR_RDONLY),
            ("nosuid", MountAttrFlags::MOUNT_ATTR_NOSUID),
            ("nodev", MountAttrFlags::MOUNT_ATTR_NODEV),
            ("noexec", MountAttrFlags::MOUNT_ATTR_NOEXEC),
            ("noatime", MountAttrFlags::MOUNT_ATTR_NOATIME),
            ("nodiratime", MountAttrFlags::MOUNT_ATTR_NODIRATIME),
            ("nosymfollow", MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW),
        ];
        let has = |name: &str| entry.options.split(',').any(|option| option == name);
        let mut attributes = flags.into_iter().filter(|(name, _)| has(name)).fold(MountAttrFlags::empty(), |all, (_, flag)| all | flag);
        // Without an option, every access is recorded; `relatime` is not a flag.
        if !has("noatime") && !has("relatime") {
            attributes |= MountAttrFlags::MOUNT_ATTR_STRICTATIME;
        }
        Self {
            identity: Identity { id: entry.id, unique: false, major: entry.major, minor: entry.minor },
            parent: entry.parent,
            is_id_mapped: has("idmapped"),
            attributes,
            peer_group: entry.peer_group,
            master: entry.master,
            unbindable: entry.unbindable,
            is_local: entry.major != 0 || ["btrfs", "overlay", "tmpfs", "zfs"].contains(&entry.fstype.as_str()),
            root: entry.root,
            point: entry.mount_point,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_says_how_it_is_mounted() {
        let rows = [
            ("rw,relatime", MountAttrFlags::empty()),
            ("ro,nosuid,relatime", MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID),
            ("rw,noatime", MountAttrFlags::MOUNT_ATTR_NOATIME),
            ("rw", MountAttrFlags::MOUNT_ATTR_STRICTATIME),
        ];
        for (options, expected) in rows {
            let line = format!("36 35 0:98 /sub /mnt {options} unbindable - fuse.bindfs x rw\n");
            let row = Row::from(mountinfo::parse(line.as_bytes()).remove(0));
            assert_eq!(row.attributes, expected, "{options}");
            assert!(row.unbindable && !row.is_local && !row.is_id_mapped);
            assert_eq!(row.root, PathBuf::from("/sub"));
        }
    }

    #[test]
    fn both_ways_tell_the_same_of_our_own_mounts() {
        let mut asked: Vec<Row> = match statmount::below(None, statmount::ALL, 0) {
            // Before 6.8.
            Err(error) if error.errno() == Errno::NOSYS => return,
            ids => rows(None, ids.unwrap()),
        };
        let mut read: Vec<Row> = mountinfo::read().unwrap().into_iter().map(Row::from).collect();
        asked.sort_by(|one, other| one.point.cmp(&other.point));
        read.sort_by(|one, other| one.point.cmp(&other.point));
        let facts = |row: &Row| (row.device(), row.root.clone(), row.point.clone(), row.attributes, row.peer_group, row.master);
        assert!(read.len() > 2);
        assert_eq!(asked.iter().map(facts).collect::<Vec<_>>(), read.iter().map(facts).collect::<Vec<_>>());
    }
}
