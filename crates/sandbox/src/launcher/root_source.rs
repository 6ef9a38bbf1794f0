//! Where the files of the root come from: an image, or a container that is already running. A [`Root`] comes in,
//! detached mounts and the client's credentials go out.

use std::ffi::CStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::MountAttrFlags;
use shorefast_sys as sys;
use sys::bounded_call::{self, Listed};
use sys::call;
use sys::mount::Attributes;
use sys::namespace::Home;

use crate::error::Error;
use crate::joins::Joins;
use crate::launcher::base_dirs::BaseDirs;
use crate::launcher::container::Container;
use crate::launcher::etc;
use crate::launcher::files::{self, ReadFile};
use crate::launcher::node::{self, Entry, EntryKind};
use crate::spec::{INIT_INSIDE, Identity, Ids, Rights, Spec};

/// Top-level names that the sandbox provides, not the image.
const OURS: &[&str] = &["dev", "proc", "sys", "run", "tmp", "root", "var", "shorefast", etc::OF_IMAGE];

#[derive(Clone, Copy, Debug)]
pub enum Root<'a> {
    /// The image's root filesystem, and the directory that [`crate::launcher::etc::prepare`] made for it, if there is one.
    Image { rootfs: &'a Path, etc: Option<&'a Path> },
    /// The container that the client is to run in.
    Container(&'a Container),
}

#[derive(Debug)]
pub struct Opened<'a> {
    pub contents: Contents<'a>,
    /// The top-level entries of the root.
    pub entries: Vec<Entry>,
    /// The detached mounts, one for each entry for which [`Entry::is_mounted`] holds, in the same order.
    pub trees: Vec<OwnedFd>,
    /// The mount that they were copied from. Closing it takes time, so it is closed together with them.
    _shelf: Option<StoreTree>,
}

#[derive(Debug)]
pub enum Contents<'a> {
    /// `etc`: the prepared directory, as a detached mount.
    Image {
        root: OwnedFd,
        etc: Option<OwnedFd>,
    },
    Container(&'a Container),
}

/// The other differences between an image and a container.
#[derive(Debug)]
pub struct Credentials {
    pub owner: u32,
    pub init_id: u32,
    /// Set if the client joins a container's namespaces.
    pub joins: Option<Joins>,
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
}

pub fn credentials(root: Root<'_>, spec: &Spec, ids: Ids) -> Result<Credentials, Error> {
    match root {
        Root::Image { .. } => Ok(Credentials {
            owner: ids.client(spec.identity),
            init_id: if spec.identity == Identity::UserNamespace { INIT_INSIDE } else { ids.init(spec.identity) },
            joins: None,
            environment: Vec::new(),
        }),
        Root::Container(container) => {
            let joins = container.joins().map_err(Error::Start)?;
            Ok(Credentials {
                owner: container.root,
                init_id: match (&joins.users, container.has_spare_user) {
                    (None, _) => ids.init(spec.identity),
                    (Some(_), true) => INIT_INSIDE,
                    (Some(_), false) => 0,
                },
                joins: Some(joins),
                environment: container.environment.clone(),
            })
        }
    }
}

/// Runs in the launching process, because open_tree can only copy mounts of the caller's own mount namespace. `home`:
/// that namespace.
pub fn open<'a>(root: Root<'a>, rights: Rights, home: &Home, deadline: Instant) -> Result<Opened<'a>, Error> {
    match root {
        Root::Image { rootfs: path, etc } => {
            let fail = |source| Error::Root { path: path.to_owned(), source };
            let image = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            let image = call(|| format!("open({path:?})"), image).map_err(fail)?;
            // Optional: without the prepared directory, filling /etc only takes longer.
            let etc = etc.filter(|_| rights == Rights::None);
            let store_tree = etc.filter(|_| is_crowded(home)).and_then(|etc| StoreTree::with_both(path, etc));
            let copy = |from: BorrowedFd<'_>, name: &Path| match rights {
                Rights::None => read_only_copy(from, name),
                // Without mount_setattr (Linux 5.12): restricted once they are attached.
                Rights::All => sys::mount::detached_copy(from, name),
            };
            let from_shelf = |at: fn(&StoreTree) -> &Path, name: &Path| {
                let store_tree = store_tree.as_ref()?;
                copy(store_tree.tree.as_fd(), &at(store_tree).join(name)).ok()
            };
            let entry = |name: &Path| from_shelf(|store_tree| &store_tree.image, name).map_or_else(|| copy(image.as_fd(), name), Ok);
            let (entries, trees) = entries(&image, OURS, entry).map_err(fail)?;
            let etc = etc.and_then(|etc| from_shelf(|store_tree| &store_tree.etc, Path::new("")).or_else(|| copy(CWD, etc).ok()));
            Ok(Opened { contents: Contents::Image { root: image, etc }, entries, trees, _shelf: store_tree })
        }
        Root::Container(container) => {
            let (entries, trees) = container_entries(container, deadline).map_err(Error::ContainerFiles)?;
            Ok(Opened { contents: Contents::Container(container), entries, trees, _shelf: None })
        }
    }
}

impl Opened<'_> {
    /// Which directories the sandbox adds to the root.
    pub fn base_dirs(&self) -> BaseDirs {
        match self.contents {
            Contents::Image { .. } => BaseDirs::Full,
            Contents::Container(_) => BaseDirs::Sparse,
        }
    }

    /// Reads the files that the client gets besides its root, as the host has them.
    pub fn read_files(&self, spec: &Spec, ids: Ids, deadline: Instant) -> Result<Vec<ReadFile>, Error> {
        match &self.contents {
            Contents::Image { root, .. } => files::read(spec, root, ids, deadline),
            Contents::Container(_) => files::read_given(spec, deadline),
        }
    }
}

/// Top-level entries of a container that the client must not see.
const NOT_OF_CONTAINER: &[&CStr] = &[c"dev", c"proc", c"shorefast"];

/// The container's top-level entries, each with everything mounted below it. Any process may serve its files, so the
/// process that reads them, in the container's mount namespace, may block: it is a bounded call with a deadline.
fn container_entries(container: &Container, deadline: Instant) -> sys::Result<(Vec<Entry>, Vec<OwnedFd>)> {
    let listed = bounded_call::list_root(container.mounts.as_fd(), NOT_OF_CONTAINER, deadline);
    let (mut entries, mut trees) = (Vec::new(), Vec::new());
    for Listed { name, kind, leads_to, tree } in listed.or_timed_out(|| "open(\"/\")".to_owned())? {
        let is_ours = NOT_OF_CONTAINER.iter().any(|ours| ours.to_bytes() == name);
        let Some(kind) = EntryKind::of(kind, leads_to).filter(|_| !is_ours) else { continue };
        if let Some(tree) = &tree {
            let set = Some(MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV);
            sys::mount::set_attributes_of_all(tree.as_fd(), Attributes { set, private: true, ..Attributes::default() })?;
        }
        entries.push(Entry { name, kind });
        trees.extend(tree);
    }
    Ok((entries, trees))
}

/// With this many mounts on the host, copying one takes as long as the workaround: for each copy the kernel walks
/// everything that is mounted on the original.
const CROWD: u32 = 1_000;

fn is_crowded(home: &Home) -> bool {
    home.mounts().is_some_and(|mounts| mounts >= CROWD)
}

/// A copy of the store's directory that contains both the image and its /etc, with nothing mounted on it. All other
/// copies are made from this one (Linux 6.15).
#[derive(Debug)]
struct StoreTree {
    tree: OwnedFd,
    image: PathBuf,
    etc: PathBuf,
}

impl StoreTree {
    /// `None`: they are in different directories.
    fn with_both(image: &Path, etc: &Path) -> Option<Self> {
        let directory = image.parent().filter(|directory| etc.parent() == Some(directory))?;
        let tree = sys::mount::detached_copy(CWD, directory).ok()?;
        let [image, etc] = [image, etc].map(|path| path.strip_prefix(directory).map(Path::to_owned));
        Some(Self { tree, image: image.ok()?, etc: etc.ok()? })
    }
}

fn entries(directory: &OwnedFd, ours: &[&str], copy: impl Fn(&Path) -> sys::Result<OwnedFd>) -> sys::Result<(Vec<Entry>, Vec<OwnedFd>)> {
    let mut entries = node::entries(directory)?;
    entries.retain(|entry| ours.iter().all(|ours| ours.as_bytes() != entry.name));
    let shown = entries.iter().filter(|entry| entry.is_mounted());
    let trees = shown.map(|entry| copy(node::path(&entry.name))).collect::<sys::Result<_>>()?;
    Ok((entries, trees))
}

fn read_only() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV
}

fn read_only_copy(directory: BorrowedFd<'_>, name: &Path) -> sys::Result<OwnedFd> {
    let tree = sys::mount::detached_copy(directory, name)?;
    // Private: on a host with shared mounts, later mounts there must not propagate into the sandbox.
    // Not noexec: on immutable hosts, every directory that a store can be in is mounted so. It keeps programs of the store
    // from running on the host; in the sandbox they are what the client consists of.
    let clear = Some(MountAttrFlags::MOUNT_ATTR_NOEXEC);
    let attributes = Attributes { set: Some(read_only()), clear, private: true, ..Attributes::default() };
    sys::mount::set_attributes(tree.as_fd(), attributes)?;
    Ok(tree)
}
