//! The host path that the client sees at [`SOURCE`]. In: a [`HostSource`]. Out: a detached, restricted, perhaps
//! ID-mapped mount.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, FileType, OFlags, StatxFlags};
use rustix::mount::MountAttrFlags;
use shorefast_sys as sys;
use sys::bounded_call::{self, Bounded};
use sys::mount::Attributes;
use sys::namespace::Home;

use crate::error::Error;
use crate::spec::{HostSource, IDS_PER_NAMESPACE, Identity, Ids, SOURCE, SourceAccess};

/// The file type that a mount point for it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File,
}

/// A host path, held as a detached mount.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    is_read_only: bool,
    pub tree: OwnedFd,
    pub kind: Kind,
}

/// How the owners of the source's files appear to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owners {
    /// As they are on the host.
    Unmapped,
    /// Through a mapping in the format of uid_map: first id on disk, first id on the host, count.
    Mapped(String),
    /// Through the client's own user namespace: the host's root becomes the client.
    AsClient,
}

impl Owners {
    /// `client`: its uid on the host.
    pub fn of(access: SourceAccess, identity: Identity, client: u32, ids: Ids) -> Self {
        match (identity, access) {
            // A dedicated uid owns nothing here, and the host's root may access everything anyway.
            (Identity::DedicatedUser | Identity::HostRoot, _) => Self::Unmapped,
            (Identity::UserNamespace, SourceAccess::AsOthers) => Self::Mapped(all_but_root(ids)),
            (Identity::UserNamespace, SourceAccess::AsRoot | SourceAccess::KeepOwners) => Self::AsClient,
            (Identity::ContainerRoot, SourceAccess::AsRoot) if client == 0 => Self::Unmapped,
            (Identity::ContainerRoot, SourceAccess::AsRoot) => Self::AsClient,
            // Its capabilities would be those of the container: it keeps no owners.
            (Identity::ContainerRoot, SourceAccess::AsOthers | SourceAccess::KeepOwners) if client == 0 => Self::Mapped(without_root(ids)),
            (Identity::ContainerRoot, SourceAccess::AsOthers | SourceAccess::KeepOwners) => Self::Unmapped,
        }
    }
}

/// For root of a user namespace that we created. Users of the host have the same ids inside as outside, except root,
/// whose id is the client's: root's files appear to belong to another user. Files that the client creates are stored
/// with the uid that it has on the host. Ids beyond the namespace are mapped to themselves: with an unmapped owner, the
/// kernel would refuse even writes that the mode permits to everyone.
fn all_but_root(ids: Ids) -> String {
    let (client, other) = (ids.base(), ids.dedicated());
    lines(&[
        (0, other, 1),
        (1, client + 1, IDS_PER_NAMESPACE - 1),
        (IDS_PER_NAMESPACE, IDS_PER_NAMESPACE, other - IDS_PER_NAMESPACE),
        (other + 1, other + 1, client - other - 1),
        (client, client, 1),
    ])
}

/// For a client with the host's uid 0 but no capabilities: root and the dedicated uid are swapped.
fn without_root(ids: Ids) -> String {
    let other = ids.dedicated();
    lines(&[(0, other, 1), (1, 1, other - 1), (other, 0, 1), (other + 1, other + 1, u32::MAX - other - 1)])
}

fn lines(extents: &[(u32, u32, u32)]) -> String {
    extents.iter().map(|(on_disk, host, count)| format!("{on_disk} {host} {count}\n")).collect()
}

impl Source {
    /// Opens the source as a bounded call, since its server may be dead. `opened`: the result, if the caller has opened
    /// it already.
    pub fn open(source: &HostSource, opened: Option<Bounded<OwnedFd>>, deadline: Instant) -> Result<Self, Error> {
        let HostSource { path, is_read_only, .. } = source;
        let fail = |source| Error::Source { path: path.clone(), source };
        let opened = opened.unwrap_or_else(|| bounded_call::open(path, OFlags::PATH, deadline));
        let place = opened.or_timed_out(|| format!("open({path:?})")).map_err(fail)?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = sys::call(|| format!("stat({path:?})"), rustix::fs::statx(&place, c"", flags, StatxFlags::TYPE)).map_err(fail)?;
        let kind = match FileType::from_raw_mode(stat.stx_mode.into()) {
            FileType::Directory => Kind::Directory,
            FileType::RegularFile => Kind::File,
            _ => return Err(fail(sys::Error::new(format!("open({path:?})"), rustix::io::Errno::NOTSUP))),
        };
        let tree = sys::mount::detached_copy(place.as_fd(), Path::new("")).map_err(fail)?;
        Ok(Self { path: path.to_owned(), is_read_only: *is_read_only, tree, kind })
    }

    /// Returns it ready to be attached, with its owners unchanged or through a mapping.
    pub fn ready(self, mapping: Option<&str>) -> Result<OwnedFd, Error> {
        let made = mapping.map(sys::namespace::with_mapping).transpose();
        let owners = made.map_err(|source| Error::Source { path: self.path.clone(), source })?;
        self.restricted(owners)
    }

    /// `owners`: the user namespace whose mapping is applied.
    fn restricted(self, owners: Option<OwnedFd>) -> Result<OwnedFd, Error> {
        let Self { path, tree, is_read_only, .. } = self;
        let mut set = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        set.set(MountAttrFlags::MOUNT_ATTR_RDONLY, is_read_only);
        let set = Some(set);
        let attributes = Attributes { set, private: true, owners: owners.as_ref().map(|fd| fd.as_fd()), ..Attributes::default() };
        match (sys::mount::set_attributes(tree.as_fd(), attributes), owners) {
            (Ok(()), _) => Ok(tree),
            (Err(source), Some(_)) => Err(Error::OwnersNotMapped { path, source }),
            (Err(source), None) => Err(Error::Source { path, source }),
        }
    }

    /// For a sandbox that is already in its user namespace, where it cannot attach host mounts itself.
    pub fn show_in(self, namespace: &OwnedFd, sandbox: rustix::process::Pid) -> Result<(), Error> {
        let path = self.path.clone();
        let fail = |source| Error::Source { path: path.clone(), source };
        let tree = self.restricted(Some(sys::namespace::of(sandbox, "user").map_err(fail)?))?;
        let home = Home::here().map_err(fail)?;
        let _visit = home.visit(namespace.as_fd()).map_err(fail)?;
        sys::mount::attach(tree.as_fd(), CWD, Path::new(SOURCE)).map_err(fail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an id on disk is mapped to.
    fn taken_for(owners: &Owners, on_disk: u32) -> Option<u32> {
        let Owners::Mapped(map) = owners else { panic!("{owners:?}") };
        let found: Vec<_> = map
            .lines()
            .filter_map(|line| {
                let [first, host, count] = line.split(' ').map(|number| number.parse::<u32>().unwrap()).collect::<Vec<_>>()[..] else {
                    panic!("{line}")
                };
                on_disk.checked_sub(first).filter(|offset| *offset < count).map(|offset| host + offset)
            })
            .collect();
        assert!(found.len() < 2, "{on_disk} is mapped twice");
        found.first().copied()
    }

    #[test]
    fn others_own_nothing_of_roots() {
        for slot in [0, 1, 100, Ids::SLOTS - 1] {
            let ids = Ids::of_slot(slot);
            for (identity, client) in [(Identity::UserNamespace, ids.base()), (Identity::ContainerRoot, 0)] {
                let owners = Owners::of(SourceAccess::AsOthers, identity, client, ids);
                let is_clients = |on_disk| taken_for(&owners, on_disk) == Some(client);
                let disk =
                    [0, 1, 1000, 65_534, 65_535, 65_536, 1_000_000, ids.dedicated() - 1, ids.dedicated(), ids.base() - 1, ids.base()];
                // A file that it creates has an owner that is no user of the host.
                let own: Vec<_> = disk.into_iter().filter(|on_disk| is_clients(*on_disk)).collect();
                assert!(own.len() == 1 && ids.contain(own[0]), "{identity:?}: {own:?}");
                assert!(taken_for(&owners, 0).is_some(), "what root lets everybody write to is for the client, too");
            }
            let in_namespace = Owners::of(SourceAccess::AsOthers, Identity::UserNamespace, ids.base(), ids);
            assert_eq!(taken_for(&in_namespace, 1000), Some(ids.base() + 1000), "a user of the host has the same number inside");
        }
    }

    #[test]
    fn only_the_key_makes_roots_files_the_clients() {
        let ids = Ids::of_slot(0);
        assert_eq!(Owners::of(SourceAccess::AsRoot, Identity::UserNamespace, ids.base(), ids), Owners::AsClient);
        assert_eq!(Owners::of(SourceAccess::KeepOwners, Identity::UserNamespace, ids.base(), ids), Owners::AsClient);
        for identity in [Identity::DedicatedUser, Identity::ContainerRoot] {
            assert_eq!(SourceAccess::KeepOwners.for_identity(identity), SourceAccess::AsOthers);
        }
        assert_eq!(Owners::of(SourceAccess::AsRoot, Identity::ContainerRoot, 0, ids), Owners::Unmapped);
        assert_eq!(Owners::of(SourceAccess::AsRoot, Identity::ContainerRoot, 100_000, ids), Owners::AsClient);
        assert_eq!(Owners::of(SourceAccess::AsOthers, Identity::ContainerRoot, 100_000, ids), Owners::Unmapped);
        assert_eq!(SourceAccess::default(), SourceAccess::AsOthers);
    }
}
