//! Where the files of a root come from: an image's files, or those of a container that already runs.

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

use crate::container::{Container, Joins};
use crate::error::Error;
use crate::etc;
use crate::files::{self, ReadFile};
use crate::node::{self, Entry, EntryKind};
use crate::root::BaseDirs;
use crate::spec::{INIT_INSIDE, Identity, Ids, Rights, Spec};

/// Top-level names that the image does not decide.
const OURS: &[&str] = &["dev", "proc", "sys", "run", "tmp", "root", "var", "shorefast", etc::OF_IMAGE];

/// Where the client's files come from.
#[derive(Clone, Copy, Debug)]
pub enum Root<'a> {
    /// The image's root filesystem, and what [`crate::etc::prepare`] made of it, if that is there.
    Image { rootfs: &'a Path, etc: Option<&'a Path> },
    /// The container that the sandbox was made for.
    Container(&'a Container),
}

/// The same, opened.
#[derive(Debug)]
pub struct Opened<'a> {
    pub contents: Contents<'a>,
    /// What stands in it.
    pub entries: Vec<Entry>,
    /// One for each entry that is mounted, in order.
    pub trees: Vec<OwnedFd>,
    /// What they were copied from. To close it takes a moment, so it stays as long as they do.
    _shelf: Option<StoreTree>,
}

#[derive(Debug)]
pub enum Contents<'a> {
    /// `etc`: what was prepared, as a tree.
    Image {
        root: OwnedFd,
        etc: Option<OwnedFd>,
    },
    Container(&'a Container),
}

/// What else differs between the two.
#[derive(Debug)]
pub struct Credentials {
    pub owner: u32,
    pub init_id: u32,
    /// Set if the client becomes part of a container.
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

/// Made by the launching process: a copy can be made only of mounts in one's own namespace. `home`: where that is.
pub fn open<'a>(root: Root<'a>, rights: Rights, home: &Home, deadline: Instant) -> Result<Opened<'a>, Error> {
    match root {
        Root::Image { rootfs: path, etc } => {
            let fail = |source| Error::Root { path: path.to_owned(), source };
            let image = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            let image = call(|| format!("open({path:?})"), image).map_err(fail)?;
            // Without it everything takes a little longer.
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
    /// What else stands in the root.
    pub fn base_dirs(&self) -> BaseDirs {
        match self.contents {
            Contents::Image { .. } => BaseDirs::Full,
            Contents::Container(_) => BaseDirs::Sparse,
        }
    }

    /// The client's files, as the host has them.
    pub fn read_files(&self, spec: &Spec, ids: Ids, deadline: Instant) -> Result<Vec<ReadFile>, Error> {
        match &self.contents {
            Contents::Image { root, .. } => files::read(spec, root, ids, deadline),
            Contents::Container(_) => files::read_given(spec, deadline),
        }
    }
}

/// What a container has at the top that is not the client's to see.
const NOT_OF_CONTAINER: &[&CStr] = &[c"dev", c"proc", c"shorefast"];

/// The container's top-level entries with all that is mounted below them, as they are. Its files may be anybody's: whoever asks for them, in
/// the container's mount namespace, can be left behind.
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

/// From here on, a copy of a mount takes as long as what is done about it: for each, the kernel looks at all that is mounted on the original.
const CROWD: u32 = 1_000;

fn is_crowded(home: &Home) -> bool {
    home.mounts().is_some_and(|mounts| mounts >= CROWD)
}

/// A copy of the directory of the store in which an image and its /etc are, with nothing mounted on it, to make all other copies from
/// (Linux 6.15).
#[derive(Debug)]
struct StoreTree {
    tree: OwnedFd,
    image: PathBuf,
    etc: PathBuf,
}

impl StoreTree {
    /// `None`: they are not together.
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
    // Private: on a host with shared mounts, what is mounted there later must not appear here.
    sys::mount::set_attributes(tree.as_fd(), Attributes { set: Some(read_only()), private: true, ..Attributes::default() })?;
    Ok(tree)
}
