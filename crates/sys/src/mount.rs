//! Mounts as descriptors: attributes, identity, and where one is now.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags};

use crate::errand::{self, Errand};
use crate::error::{Result, call, checked};
use crate::mountinfo;
use crate::statmount;

/// What `mount_setattr` changes (Linux 5.12).
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a> {
    pub set: Option<MountAttrFlags>,
    /// Leave every peer group, so that nothing propagates in or out.
    pub private: bool,
    /// Show owners through this user namespace's mapping.
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

/// Changes a mount that is at hand as a descriptor.
pub fn set_attributes(mount: BorrowedFd<'_>, attributes: Attributes<'_>) -> Result<()> {
    mount_setattr(mount, libc::AT_EMPTY_PATH, attributes)
}

/// The same for a mount and all that is mounted below it.
pub fn set_attributes_of_all(mount: BorrowedFd<'_>, attributes: Attributes<'_>) -> Result<()> {
    mount_setattr(mount, libc::AT_EMPTY_PATH | libc::AT_RECURSIVE, attributes)
}

/// Makes every mount of the calling thread's namespace private.
pub fn make_all_private() -> Result<()> {
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    call(|| "mount(\"/\", MS_REC | MS_PRIVATE)".into(), rustix::mount::mount_change("/", flags))
}

/// Makes the mount at `path` private, and gives it exactly these flags: what [`set_attributes`] does for descriptors, on kernels
/// that are older than that. How access times are kept stays as it is.
pub fn restrict(path: &Path, flags: MountFlags) -> Result<()> {
    let text = || crate::quoted(path);
    call(|| format!("mount({}, MS_PRIVATE)", text()), rustix::mount::mount_change(path, MountPropagationFlags::PRIVATE))?;
    call(|| format!("mount({}, MS_REMOUNT, {flags:?})", text()), rustix::mount::mount_remount(path, MountFlags::BIND | flags, c""))
}

fn mount_setattr(mount: BorrowedFd<'_>, flags: i32, attributes: Attributes<'_>) -> Result<()> {
    let raw = RawAttributes {
        set: u64::from(attributes.set.map_or(0, |set| set.bits())) | attributes.owners.map_or(0, |_| MOUNT_ATTR_IDMAP),
        clear: 0,
        propagation: if attributes.private { libc::MS_PRIVATE } else { 0 },
        user_namespace: attributes.owners.map_or(0, |fd| fd.as_raw_fd() as u64),
    };
    let path = c"";
    // SAFETY: an empty C string and a live struct with its true size, both only read.
    let result = unsafe {
        libc::syscall(libc::SYS_mount_setattr, mount.as_raw_fd(), path.as_ptr(), flags, &raw const raw, size_of::<RawAttributes>())
    };
    checked(|| format!("mount_setattr({attributes:?})"), result).map(drop)
}

/// A detached copy of the mount at `path` below `directory`, without what is mounted inside it.
pub fn detached_copy(directory: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    open_tree(directory, path, OpenTreeFlags::empty())
}

/// The same with all that is mounted inside it.
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

/// Attaches a detached mount at `path` below `directory`, in the calling thread's namespace.
pub fn attach(mount: BorrowedFd<'_>, directory: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    call(
        || format!("move_mount(fd {}, {})", mount.as_raw_fd(), crate::quoted(path)),
        rustix::mount::move_mount(mount, "", directory, path, flags),
    )
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

/// What the kernel wrote about the last failure into a filesystem context, its own words only.
pub fn context_log(context: BorrowedFd<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut buffer = [0u8; 1024];
    // One message a read, with a two-byte level prefix; ENODATA ends it.
    while let Ok(n @ 1..) = rustix::io::read(context, &mut buffer) {
        let message = String::from_utf8_lossy(&buffer[..n]);
        let message = message.split_once(' ').map_or(&*message, |(_level, text)| text);
        lines.push(message.trim_end().to_owned());
    }
    lines
}

/// Which mount this is, told apart from any other, also from later ones that reuse its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub id: u64,
    /// The id was never used before and never will be again (Linux 6.8). Otherwise it can come
    /// back, and the device number has to match as well.
    pub unique: bool,
    pub major: u32,
    pub minor: u32,
}

/// Identifies the mount that `fd` is on. Asks no server: the kernel answers from what it has.
pub fn identify(fd: BorrowedFd<'_>) -> Result<Identity> {
    let mnt_id_unique = StatxFlags::from_bits_retain(0x4000);
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let statx = |mask| call(|| "statx(STATX_MNT_ID)".into(), rustix::fs::statx(fd, c"", flags, mask));
    let stat = statx(StatxFlags::TYPE | mnt_id_unique)?;
    let unique = stat.stx_mask & mnt_id_unique.bits() != 0;
    let stat = if unique { stat } else { statx(StatxFlags::TYPE | StatxFlags::MNT_ID)? };
    Ok(Identity { id: stat.stx_mnt_id, unique, major: stat.stx_dev_major, minor: stat.stx_dev_minor })
}

/// Where the mount is attached in our namespace. `None`: nowhere.
///
/// statmount (6.8) costs the same on every host; before it, the whole table has to be read.
pub fn place_of(mount: &Identity) -> Result<Option<PathBuf>> {
    if mount.unique {
        match statmount::point(mount.id) {
            Err(error) if error.errno() == Errno::NOSYS => {}
            Err(error) if error.errno() == Errno::NOENT => return Ok(None),
            answer => return answer.map(Some),
        }
    }
    let is_it = |entry: &mountinfo::Entry| (entry.id, entry.major, entry.minor) == (mount.id, mount.major, mount.minor);
    let table = mountinfo::read()?;
    Ok(table.into_iter().find(is_it).map(|entry| entry.mount_point))
}

/// Ends a FUSE connection from the kernel's side: every waiting request fails, none hangs.
/// Through a fusectl mount of our own, because not every host has one at /sys/fs/fuse.
pub fn abort_fuse(minor: u32) -> Result<()> {
    let control = new_filesystem("fusectl", &[], MountAttrFlags::empty())?;
    let path = format!("{minor}/abort");
    let file = rustix::fs::openat(&control, &path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    let file = call(|| format!("open(fusectl, {path:?})"), file)?;
    call(|| format!("write(fusectl, {path:?})"), rustix::io::write(&file, b"1")).map(drop)
}

/// Unmounts exactly this mount, lazily. False: it is not attached here, or something covers it.
pub fn detach(mount: &Identity) -> Result<bool> {
    let Some(path) = place_of(mount)? else {
        return Ok(false);
    };
    let deadline = Instant::now() + DETACH_WITHIN;
    let top = match errand::open(&path, OFlags::PATH | OFlags::NOFOLLOW, deadline) {
        Errand::Done(top) => top,
        Errand::Failed(error) => return Err(error),
        Errand::Late => return detach_unseen(mount, &path),
    };
    if identify(top.as_fd())? != *mount {
        return Ok(false);
    }
    // Through the descriptor: whatever is put on the path meanwhile is not touched.
    let link = format!("/proc/thread-self/fd/{}", top.as_raw_fd());
    let unmounted = rustix::mount::unmount(link.as_str(), rustix::mount::UnmountFlags::DETACH);
    call(|| format!("umount2({}, MNT_DETACH)", crate::quoted(&path)), unmounted).map(|()| true)
}

/// An open of a mount's root asks some filesystems for its attributes, NFS among them.
const DETACH_WITHIN: Duration = Duration::from_secs(2);

/// Without a look at it: its server does not answer. umount2 does not look, either. What is on top at
/// the path is known from the kernel's table, just before.
fn detach_unseen(mount: &Identity, path: &Path) -> Result<bool> {
    let table = mountinfo::read()?;
    let is_on_top = table.iter().rfind(|entry| entry.mount_point == path).map(|entry| (entry.major, entry.minor));
    if is_on_top != Some((mount.major, mount.minor)) {
        return Ok(false);
    }
    let flags = rustix::mount::UnmountFlags::DETACH | rustix::mount::UnmountFlags::NOFOLLOW;
    let text = || format!("umount2({}, MNT_DETACH)", crate::quoted(path));
    errand::unmount(path, flags, Instant::now() + DETACH_WITHIN).or_timed_out(text).map(|()| true)
}
