//! Mounts as descriptors: paths and filesystem types in, detached mounts, their [`Identity`] and their [`Attachment`]
//! out.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags};

use crate::error::{Result, call, checked};
use crate::mountinfo;
use crate::statmount;

/// What `mount_setattr` changes (Linux 5.12).
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a> {
    pub set: Option<MountAttrFlags>,
    /// The kernel refuses to clear what a more privileged mount namespace has set; none is more privileged than we are.
    pub clear: Option<MountAttrFlags>,
    /// Leave every peer group, so that nothing propagates in or out.
    pub private: bool,
    /// Map owners through this user namespace (ID-mapped mount).
    pub owners: Option<BorrowedFd<'a>>,
}

/// The kernel's `struct mount_attr`.
#[repr(C)]
struct RawAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// Changes one mount.
pub fn set_attributes(mount: BorrowedFd<'_>, attributes: Attributes<'_>) -> Result<()> {
    mount_setattr(mount, libc::AT_EMPTY_PATH, attributes)
}

/// Changes a mount and everything mounted below it.
pub fn set_attributes_of_all(mount: BorrowedFd<'_>, attributes: Attributes<'_>) -> Result<()> {
    mount_setattr(mount, libc::AT_EMPTY_PATH | libc::AT_RECURSIVE, attributes)
}

/// How mounts that are made on a mount, or unmounted, propagate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// In a peer group: of its own if it was in none.
    Shared,
    /// Receives from the peer group that it was in.
    Slave,
    Private,
    /// Private, and cannot be copied.
    Unbindable,
}

/// A mount's namespace must be the calling thread's.
pub fn set_propagation(mount: BorrowedFd<'_>, propagation: Propagation) -> Result<()> {
    let raw = RawAttributes {
        set: 0,
        clear: 0,
        propagation: match propagation {
            Propagation::Shared => libc::MS_SHARED,
            Propagation::Slave => libc::MS_SLAVE,
            Propagation::Private => libc::MS_PRIVATE,
            Propagation::Unbindable => libc::MS_UNBINDABLE,
        },
        user_namespace: 0,
    };
    raw_mount_setattr(|| format!("mount_setattr({propagation:?})"), mount, libc::AT_EMPTY_PATH, &raw)
}

/// Makes `mount`, which is private, a peer of `peer`, with the same master (Linux 5.15). Their namespaces
/// may differ; their superblock may not, and `mount` shows the same directory as `peer` or one below it.
pub fn join_peers(mount: BorrowedFd<'_>, peer: BorrowedFd<'_>) -> Result<()> {
    move_mount(|| "move_mount(MOVE_MOUNT_SET_GROUP)".into(), peer, mount, Path::new(""), MoveMountFlags::MOVE_MOUNT_SET_GROUP)
}

/// Makes every mount of the calling thread's mount namespace private.
pub fn make_all_private() -> Result<()> {
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    call(|| "mount(\"/\", MS_REC | MS_PRIVATE)".into(), rustix::mount::mount_change("/", flags))
}

/// Makes the mount at `path` private, and sets exactly these flags: what [`set_attributes`] does for descriptors, on
/// kernels without mount_setattr. The access time options do not change.
pub fn restrict(path: &Path, flags: MountFlags) -> Result<()> {
    let text = || crate::quoted(path);
    call(|| format!("mount({}, MS_PRIVATE)", text()), rustix::mount::mount_change(path, MountPropagationFlags::PRIVATE))?;
    call(|| format!("mount({}, MS_REMOUNT, {flags:?})", text()), rustix::mount::mount_remount(path, MountFlags::BIND | flags, c""))
}

fn mount_setattr(mount: BorrowedFd<'_>, flags: i32, attributes: Attributes<'_>) -> Result<()> {
    let raw = RawAttributes {
        set: u64::from(attributes.set.map_or(0, |set| set.bits())) | attributes.owners.map_or(0, |_| MOUNT_ATTR_IDMAP),
        clear: u64::from(attributes.clear.map_or(0, |clear| clear.bits())),
        propagation: if attributes.private { libc::MS_PRIVATE } else { 0 },
        user_namespace: attributes.owners.map_or(0, |fd| fd.as_raw_fd() as u64),
    };
    raw_mount_setattr(|| format!("mount_setattr({attributes:?})"), mount, flags, &raw)
}

fn raw_mount_setattr(text: impl FnOnce() -> String, mount: BorrowedFd<'_>, flags: i32, raw: &RawAttributes) -> Result<()> {
    let path = c"";
    // SAFETY: an empty C string and a live struct with its true size, both only read.
    let result = unsafe {
        libc::syscall(libc::SYS_mount_setattr, mount.as_raw_fd(), path.as_ptr(), flags, std::ptr::from_ref(raw), size_of::<RawAttributes>())
    };
    checked(text, result).map(drop)
}

/// A detached copy of the mount at `path` below `directory`, without what is mounted inside it.
pub fn detached_copy(directory: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    open_tree(directory, path, OpenTreeFlags::empty())
}

/// The same with everything mounted inside it.
pub fn detached_tree(directory: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    open_tree(directory, path, OpenTreeFlags::AT_RECURSIVE)
}

fn open_tree(directory: BorrowedFd<'_>, path: &Path, more: OpenTreeFlags) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
        | more;
    call(|| format!("open_tree({}, OPEN_TREE_CLONE)", crate::quoted(path)), rustix::mount::open_tree(directory, path, flags))
}

/// Attaches a detached mount at `path` below `directory`, in the calling thread's mount namespace.
pub fn attach(mount: BorrowedFd<'_>, directory: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let text = || format!("move_mount(fd {}, {})", mount.as_raw_fd(), crate::quoted(path));
    move_mount(text, mount, directory, path, MoveMountFlags::empty())
}

/// Attaches a detached mount below another one, in the calling thread's mount namespace: the one on top, of which `top` is
/// the root, still covers the place (Linux 6.5).
pub fn attach_beneath(mount: BorrowedFd<'_>, top: BorrowedFd<'_>) -> Result<()> {
    let text = || format!("move_mount(fd {}, MOVE_MOUNT_BENEATH)", mount.as_raw_fd());
    move_mount(text, mount, top, Path::new(""), MoveMountFlags::MOVE_MOUNT_BENEATH)
}

fn move_mount(text: impl FnOnce() -> String, from: BorrowedFd<'_>, to: BorrowedFd<'_>, path: &Path, more: MoveMountFlags) -> Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH | more;
    call(text, rustix::mount::move_mount(from, "", to, path, flags))
}

/// A new superblock of a simple kernel filesystem, as a detached mount.
pub fn new_filesystem(fstype: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> Result<OwnedFd> {
    let context = call(|| format!("fsopen({fstype:?})"), rustix::mount::fsopen(fstype, FsOpenFlags::FSOPEN_CLOEXEC))?;
    for (key, value) in options {
        let text = || format!("fsconfig({fstype}, {key}={value})");
        call(text, rustix::mount::fsconfig_set_string(context.as_fd(), *key, *value))?;
    }
    call(|| format!("fsconfig({fstype}, CREATE)"), rustix::mount::fsconfig_create(context.as_fd()))?;
    call(|| format!("fsmount({fstype})"), rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes))
}

/// The kernel's messages about the last failure of a filesystem context, without their levels.
pub fn context_log(context: BorrowedFd<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut buffer = [0u8; 1024];
    // One message per read, with a two-byte level prefix; ENODATA ends it.
    while let Ok(n @ 1..) = rustix::io::read(context, &mut buffer) {
        let message = String::from_utf8_lossy(&buffer[..n]);
        let message = message.split_once(' ').map_or(&*message, |(_level, text)| text);
        lines.push(message.trim_end().to_owned());
    }
    lines
}

/// Identifies a mount, also against later ones that reuse its ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub id: u64,
    /// The id is never reused (Linux 6.8). Otherwise it may be, and the device number has to match as well.
    pub unique: bool,
    pub major: u32,
    pub minor: u32,
}

/// Identifies the mount that `fd` is on. Contacts no server: the kernel answers from its own data.
pub fn identify(fd: BorrowedFd<'_>) -> Result<Identity> {
    let mnt_id_unique = StatxFlags::from_bits_retain(0x4000);
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let statx = |mask| call(|| "statx(STATX_MNT_ID)".into(), rustix::fs::statx(fd, c"", flags, mask));
    let stat = statx(StatxFlags::TYPE | mnt_id_unique)?;
    let unique = stat.stx_mask & mnt_id_unique.bits() != 0;
    let stat = if unique { stat } else { statx(StatxFlags::TYPE | StatxFlags::MNT_ID)? };
    Ok(Identity { id: stat.stx_mnt_id, unique, major: stat.stx_dev_major, minor: stat.stx_dev_minor })
}

/// Where a mount is attached in the calling thread's mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub place: PathBuf,
    /// Its id in mountinfo.
    pub number: u64,
    /// The parent mount: a unique id if the mount itself has one.
    pub parent: u64,
}

/// Where the mount is attached in our mount namespace. `None`: nowhere.
///
/// statmount (6.8) costs the same on every host; without it, the whole table has to be read.
pub fn attachment_of(mount: &Identity) -> Result<Option<Attachment>> {
    if mount.unique {
        match statmount::attachment(mount.id) {
            Err(error) if error.errno() == Errno::NOSYS => {}
            Err(error) if error.errno() == Errno::NOENT => return Ok(None),
            answer => {
                return answer.map(|found| Some(Attachment { place: found.point, number: found.old_id, parent: found.parent }));
            }
        }
    }
    Ok(mountinfo::read()?.into_iter().find(|entry| mount.is_entry(entry)).map(Attachment::from))
}

/// Whether anything is mounted on the mount, or below it.
pub fn has_children(mount: &Identity) -> Result<bool> {
    if mount.unique {
        match statmount::has_children(mount.id) {
            Err(error) if error.errno() == Errno::NOSYS => {}
            Err(error) if error.errno() == Errno::NOENT => return Ok(false),
            answer => return answer,
        }
    }
    Ok(mountinfo::read()?.iter().any(|entry| entry.parent == mount.id))
}

/// What is mounted on the mount, or below it. For messages only, because it reads the whole table.
pub fn children_of(mount: &Identity) -> Result<Vec<mountinfo::Entry>> {
    let Some(attachment) = attachment_of(mount)? else { return Ok(Vec::new()) };
    Ok(mountinfo::read()?.into_iter().filter(|entry| entry.parent == attachment.number).collect())
}

impl From<mountinfo::Entry> for Attachment {
    fn from(entry: mountinfo::Entry) -> Self {
        Self { place: entry.mount_point, number: entry.id, parent: entry.parent }
    }
}

impl Identity {
    /// For ids that are not unique: mountinfo shows only those.
    pub fn is_entry(&self, entry: &mountinfo::Entry) -> bool {
        (entry.id, entry.major, entry.minor) == (self.id, self.major, self.minor)
    }
}
