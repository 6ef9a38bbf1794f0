//! The root filesystem that the client sees, assembled in the sandbox's first process while it is
//! still the host's root.
//!
//! The root itself is a small private tmpfs. The image's top-level entries are bound into it
//! read-only, so an image needs no directories for our sake and is shared by all its mounts. What
//! is writable is ours, empty at the start, and bounded.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::mount::{FsPickFlags, MountAttrFlags, MountFlags, UnmountFlags};
use shorefast_sys as sys;
use sys::mount::Attributes;
use sys::{Result, call};

use crate::beside;
use crate::etc;
use crate::node;
use crate::orders::{Descriptors, Entry, EntryKind, FilePlace, Furniture, Orders, ReadFile, SourceKind};
use crate::spec::{DEFAULT_SCRATCH, Identity, Rights, SOURCE};

/// Top-level names that the image does not decide.
const OURS: &[&str] = &["dev", "proc", "sys", "run", "tmp", "root", "var", "shorefast", etc::OF_IMAGE];

/// Character devices: name, major, minor.
const DEVICES: &[(&str, u32, u32)] = &[
    ("dev/null", 1, 3),
    ("dev/zero", 1, 5),
    ("dev/full", 1, 7),
    ("dev/random", 1, 8),
    ("dev/urandom", 1, 9),
    ("dev/tty", 5, 0),
    ("dev/fuse", sys::fuse::MAJOR, sys::fuse::MINOR),
];

const DIRECTORIES: &[&str] = &["dev", "proc", "sys", "var", "shorefast", "shorefast/files", etc::ETC];

/// Directories that belong to the client. They start empty.
const WRITABLE: &[&str] = &["run", "tmp", "root", "shorefast/target", "dev/shm", "var/log", "var/lib", "var/cache", "var/tmp", "var/spool"];

const LINKS: &[(&str, &str)] = &[
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("var/run", "/run"),
    ("var/lock", "/run/lock"),
];

/// Goes to an empty root of its own, in a mount namespace of its own: all that is the same for
/// every client. `small`: what to make it from, if the launching process could see that.
pub fn enter_empty(small: Option<&OwnedFd>, furniture: Furniture, rights: Rights) -> Result<()> {
    let size = DEFAULT_SCRATCH.to_string();
    let options = [("size", size.as_str()), ("nr_inodes", "65536"), ("mode", "0755"), ("source", "shorefast")];
    let root = sys::mount::new_filesystem("tmpfs", &options, MountAttrFlags::MOUNT_ATTR_NOSUID)?;
    let of_proc = match rights {
        Rights::None => read_only(),
        Rights::All => MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    };
    let proc = sys::mount::new_filesystem("proc", &[], of_proc | MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
    let below = own_mount_namespace(small)?;
    sys::mount::attach(root.as_fd(), CWD, Path::new("/"))?;
    call(|| "fchdir(root)".into(), rustix::process::fchdir(&root))?;
    match below {
        Below::Nothing => call(|| "chroot(\".\")".into(), rustix::process::chroot("."))?,
        Below::Host => {
            call(|| "pivot_root(\".\", \".\")".into(), rustix::process::pivot_root(".", "."))?;
            call(|| "umount2(old root)".into(), rustix::mount::unmount(".", UnmountFlags::DETACH))?;
            call(|| "chdir(\"/\")".into(), rustix::process::chdir("/"))?;
        }
    }

    let (directories, writable) = directories(furniture);
    for name in directories.iter().chain(writable) {
        node::make_directory(name)?;
    }
    for (link, target) in LINKS.iter().filter(|(link, _)| furniture == Furniture::Full || link.starts_with("dev/")) {
        node::make_link(Path::new(link), Path::new(target))?;
    }
    for (path, major, minor) in DEVICES {
        let device = rustix::fs::makedev(*major, *minor);
        let node = rustix::fs::mknodat(CWD, *path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), device);
        call(|| format!("mknod({path:?})"), node)?;
    }
    sys::mount::attach(proc.as_fd(), CWD, Path::new("proc"))
}

/// Puts the image's entries, or the container's, into the empty root.
pub fn furnish(entries: &[Entry], trees: &[OwnedFd], furniture: Furniture, rights: Rights) -> Result<()> {
    let mut trees = trees.iter();
    for entry in entries {
        // Ours has links to what is in the image's.
        let is_covered = furniture == Furniture::Full && entry.name == etc::ETC.as_bytes();
        let name = if is_covered { Path::new(etc::OF_IMAGE) } else { node::path(&entry.name) };
        place(entry, name, &mut trees)?;
        if rights == Rights::All && entry.has_descriptor() {
            sys::mount::restrict(name, MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV)?;
        }
    }
    match furniture {
        Furniture::Full => etc::link(),
        Furniture::Sparse => Ok(()),
    }
}

/// Adds what only this client gets to see.
pub fn fill(orders: &Orders, descriptors: &Descriptors, furniture: Furniture) -> Result<()> {
    if orders.scratch_bytes != DEFAULT_SCRATCH {
        resize(orders.scratch_bytes)?;
    }
    let (_, writable) = directories(furniture);
    writable.iter().try_for_each(|name| node::give(Path::new(name), orders.owner))?;
    match orders.source {
        None => {}
        Some(SourceKind::Directory) => node::make_directory("shorefast/source")?,
        Some(SourceKind::File) => node::make_file(Path::new("shorefast/source"), b"", 0o644)?,
    }
    if let Some(tree) = &descriptors.source {
        sys::mount::attach(tree.as_fd(), CWD, Path::new(SOURCE))?;
        if orders.identity == Identity::HostRoot {
            sys::mount::restrict(Path::new(SOURCE), MountFlags::NOSUID | MountFlags::NODEV)?;
        }
    }
    match furniture {
        Furniture::Full => make_files(orders)?,
        Furniture::Sparse => orders.files.iter().try_for_each(|file| write_out(file, orders.owner))?,
    }
    beside::place(orders, descriptors)
}

fn directories(furniture: Furniture) -> (&'static [&'static str], &'static [&'static str]) {
    match furniture {
        Furniture::Full => (DIRECTORIES, WRITABLE),
        Furniture::Sparse => (&["dev", "proc", "shorefast", "shorefast/files"], &["shorefast/target", "dev/shm"]),
    }
}

/// The container's top-level entries with all that is mounted below them, as they are. Made in the container's mount namespace.
pub fn container_entries() -> Result<(Vec<Entry>, Vec<OwnedFd>)> {
    let root = call(|| "open(\"/\")".into(), rustix::fs::open("/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()))?;
    entries(&root, &["dev", "proc", "shorefast"], |name| {
        let tree = sys::mount::detached_tree(root.as_fd(), name)?;
        let set = Some(MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV);
        sys::mount::set_attributes_of_all(tree.as_fd(), Attributes { set, private: true, ..Attributes::default() })?;
        Ok(tree)
    })
}

/// The image's top-level entries, as detached read-only copies. Made by the launching process: a
/// copy can be made only of mounts in one's own namespace.
pub fn image_entries(image: &OwnedFd) -> Result<(Vec<Entry>, Vec<OwnedFd>)> {
    entries(image, OURS, |name| read_only_copy(image, name))
}

/// The same without mount_setattr (Linux 5.12): still to be restricted by who attaches them.
pub fn plain_image_entries(image: &OwnedFd) -> Result<(Vec<Entry>, Vec<OwnedFd>)> {
    entries(image, OURS, |name| sys::mount::detached_copy(image.as_fd(), name))
}

fn entries(directory: &OwnedFd, ours: &[&str], copy: impl Fn(&Path) -> Result<OwnedFd>) -> Result<(Vec<Entry>, Vec<OwnedFd>)> {
    let mut entries = node::entries(directory)?;
    entries.retain(|entry| ours.iter().all(|ours| ours.as_bytes() != entry.name));
    let shown = entries.iter().filter(|entry| entry.has_descriptor());
    let trees = shown.map(|entry| copy(node::path(&entry.name))).collect::<Result<_>>()?;
    Ok((entries, trees))
}

fn read_only() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV
}

fn read_only_copy(image: &OwnedFd, name: &Path) -> Result<OwnedFd> {
    let tree = sys::mount::detached_copy(image.as_fd(), name)?;
    // Private: on a host with shared mounts, what is mounted there later must not appear here.
    sys::mount::set_attributes(tree.as_fd(), Attributes { set: Some(read_only()), private: true, ..Attributes::default() })?;
    Ok(tree)
}

/// What a new mount namespace starts with.
enum Below {
    /// Nothing of anybody's: the kernel's own devtmpfs. It stays there, covered by the new root, as
    /// in every system that left its initramfs this way. To take it out, pivot_root would walk
    /// through all processes of the host, and umount would wait for all its processors.
    Nothing,
    /// A copy of the host's mounts, which must go.
    Host,
}

/// A new mount namespace, made from a small one where that can be seen: its price is then the
/// same on every host.
fn own_mount_namespace(small: Option<&OwnedFd>) -> Result<Below> {
    let found = if small.is_none() { sys::namespace::search_small_mount_namespace() } else { None };
    if let Some(small) = small.or(found.as_ref()) {
        sys::namespace::join_mount(small.as_fd())?;
        sys::namespace::unshare_mount()?;
        return Ok(Below::Nothing);
    }
    sys::namespace::unshare_mount()?;
    sys::mount::make_all_private()?;
    Ok(Below::Host)
}

fn resize(bytes: u64) -> Result<()> {
    let context = call(|| "fspick(\"/\")".into(), rustix::mount::fspick(CWD, "/", FsPickFlags::FSPICK_CLOEXEC))?;
    let size = bytes.to_string();
    let set = rustix::mount::fsconfig_set_string(context.as_fd(), "size", size.as_str());
    call(|| format!("fsconfig(tmpfs, size={size})"), set)?;
    call(|| "fsconfig(tmpfs, RECONFIGURE)".into(), rustix::mount::fsconfig_reconfigure(context.as_fd()))
}

fn place<'a>(entry: &Entry, name: &Path, trees: &mut impl Iterator<Item = &'a OwnedFd>) -> Result<()> {
    match &entry.kind {
        EntryKind::Link(target) => return node::make_link(name, node::path(target)),
        EntryKind::Directory => node::make_directory(name)?,
        EntryKind::File => node::make_file(name, b"", 0o644)?,
    }
    let tree = trees.next().ok_or_else(|| sys::Error::new("descriptors of the image", rustix::io::Errno::PROTO))?;
    sys::mount::attach(tree.as_fd(), CWD, name)
}

fn make_files(orders: &Orders) -> Result<()> {
    let (ours, in_etc): (Vec<_>, Vec<_>) = orders.files.iter().partition(|file| file.place == FilePlace::Ours);
    for file in ours {
        write_out(file, orders.owner)?;
    }
    etc::lay(&in_etc, orders.owner)
}

fn write_out(file: &ReadFile, owner: u32) -> Result<()> {
    node::write_out(file, node::relative(node::path(&file.inside)), owner)
}
