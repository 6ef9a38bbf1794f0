//! statmount(2) and listmount(2), Linux 6.8: a mount's unique id in, what the kernel knows of it out. No filesystem is
//! called, and the cost is the same on every host. From 6.11 also for mounts of other namespaces.

use std::ffi::OsString;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::error::{Error, Result, checked};

/// The kernel's `struct mnt_id_req`.
#[repr(C)]
struct Request {
    size: u32,
    spare: u32,
    id: u64,
    /// What is asked for; for listmount the id after which the list begins.
    parameter: u64,
    /// The mount namespace (6.11).
    namespace: u64,
}

impl Request {
    /// `namespace`: by the kernel's id. Without it, the calling thread's.
    fn new(namespace: Option<u64>, id: u64, parameter: u64) -> Self {
        // The first version of the struct ends before the namespace.
        const FIRST: usize = 24;
        let size = if namespace.is_some() { size_of::<Self>() } else { FIRST };
        Self { size: size as u32, spare: 0, id, parameter, namespace: namespace.unwrap_or(0) }
    }
}

const SYS_STATMOUNT: libc::c_long = 457;
const SYS_LISTMOUNT: libc::c_long = 458;
const STATMOUNT_SB_BASIC: u64 = 0x1;
const STATMOUNT_MNT_BASIC: u64 = 0x2;
const STATMOUNT_MNT_ROOT: u64 = 0x8;
const STATMOUNT_MNT_POINT: u64 = 0x10;

// Offsets in `struct statmount`: the superblock's numbers, the parent's unique id, the reusable id, how it is mounted,
// the offsets of the texts, and the start of those.
const MAJOR_AT: usize = 16;
const MINOR_AT: usize = 20;
const MAGIC_AT: usize = 24;
const PARENT_AT: usize = 48;
const OLD_ID_AT: usize = 56;
const ATTRIBUTES_AT: usize = 64;
const PROPAGATION_AT: usize = 72;
const PEER_GROUP_AT: usize = 80;
const MASTER_AT: usize = 88;
const ROOT_AT: usize = 104;
const POINT_AT: usize = 108;
const TEXTS_AT: usize = 512;

/// Where a mount is attached in our mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) point: PathBuf,
    /// The unique id of the parent mount.
    pub(crate) parent: u64,
    /// Its id in /proc/self/mountinfo.
    pub(crate) old_id: u64,
}

pub(crate) fn attachment(id: u64) -> Result<Attachment> {
    let buffer = ask_with_texts(None, id, STATMOUNT_MNT_POINT | STATMOUNT_MNT_BASIC)?;
    let read = || {
        let parent = wide(&buffer, PARENT_AT)?;
        Some(Attachment { point: text(&buffer, POINT_AT)?, parent, old_id: narrow(&buffer, OLD_ID_AT)?.into() })
    };
    read().ok_or_else(|| Error::new(format!("statmount({id})"), Errno::PROTO))
}

/// Everything about a mount that another one in its place should have, too.
#[derive(Clone, Debug)]
pub(crate) struct Mounted {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    /// The magic number of the filesystem type, as in statfs(2).
    pub(crate) magic: u64,
    /// The unique id of the parent mount.
    pub(crate) parent: u64,
    /// MOUNT_ATTR_ flags.
    pub(crate) attributes: u64,
    /// MS_SHARED, MS_SLAVE, MS_PRIVATE or MS_UNBINDABLE.
    pub(crate) propagation: u64,
    pub(crate) peer_group: u64,
    pub(crate) master: u64,
    pub(crate) root: PathBuf,
    pub(crate) point: PathBuf,
}

/// `namespace`: by the kernel's id. Without it, the calling thread's.
pub(crate) fn mounted(namespace: Option<u64>, id: u64) -> Result<Mounted> {
    let buffer = ask_with_texts(namespace, id, STATMOUNT_SB_BASIC | STATMOUNT_MNT_BASIC | STATMOUNT_MNT_ROOT | STATMOUNT_MNT_POINT)?;
    let read = || {
        Some(Mounted {
            major: narrow(&buffer, MAJOR_AT)?,
            minor: narrow(&buffer, MINOR_AT)?,
            magic: wide(&buffer, MAGIC_AT)?,
            parent: wide(&buffer, PARENT_AT)?,
            attributes: wide(&buffer, ATTRIBUTES_AT)?,
            propagation: wide(&buffer, PROPAGATION_AT)?,
            peer_group: wide(&buffer, PEER_GROUP_AT)?,
            master: wide(&buffer, MASTER_AT)?,
            root: text(&buffer, ROOT_AT)?,
            point: text(&buffer, POINT_AT)?,
        })
    };
    read().ok_or_else(|| Error::new(format!("statmount({id})"), Errno::PROTO))
}

/// The device number of a mount's superblock.
pub(crate) fn device(namespace: Option<u64>, id: u64) -> Result<(u32, u32)> {
    let mut buffer = [0u8; TEXTS_AT];
    ask(namespace, id, STATMOUNT_SB_BASIC, &mut buffer)?;
    let both = narrow(&buffer, MAJOR_AT).zip(narrow(&buffer, MINOR_AT));
    both.ok_or_else(|| Error::new(format!("statmount({id})"), Errno::PROTO))
}

/// The whole mount namespace, in place of a mount's id.
pub(crate) const ALL: u64 = u64::MAX;

/// The ids of all mounts below `id`, those with an id greater than `after`, in ascending order.
pub(crate) fn below(namespace: Option<u64>, id: u64, after: u64) -> Result<Vec<u64>> {
    const AT_ONCE: usize = 1024;
    let mut ids = Vec::new();
    loop {
        let request = Request::new(namespace, id, ids.last().copied().unwrap_or(after));
        let mut some = [0u64; AT_ONCE];
        // SAFETY: the kernel reads the request and writes at most as many ids as there is space for.
        let result = unsafe { libc::syscall(SYS_LISTMOUNT, &raw const request, some.as_mut_ptr(), AT_ONCE, 0u32) };
        let count = checked(|| format!("listmount({id})"), result)? as usize;
        ids.extend_from_slice(&some[..count.min(AT_ONCE)]);
        if count < AT_ONCE {
            return Ok(ids);
        }
    }
}

/// Whether anything is mounted on the mount, or below it.
pub(crate) fn has_children(id: u64) -> Result<bool> {
    let request = Request::new(None, id, 0);
    let mut first = 0u64;
    // SAFETY: the kernel reads the request and writes at most one id.
    let result = unsafe { libc::syscall(SYS_LISTMOUNT, &raw const request, &raw mut first, 1usize, 0u32) };
    checked(|| format!("listmount({id})"), result).map(|count| count > 0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Major number of its block device; 0: it has none.
    pub(crate) major: u32,
    /// The magic number of the filesystem type, as in statfs(2).
    pub(crate) magic: u64,
}

/// Whether a filesystem depends on this machine only: it is on a block device, or one of the known types without one.
pub(crate) fn is_local(major: u32, magic: u64) -> bool {
    const BTRFS: u64 = 0x9123_683e;
    const OVERLAYFS: u64 = 0x794c_7630;
    const TMPFS: u64 = 0x0102_1994;
    const ZFS: u64 = 0x2fc1_2fc1;
    major != 0 || [BTRFS, OVERLAYFS, TMPFS, ZFS].contains(&magic)
}

pub(crate) fn superblock(id: u64) -> Result<Superblock> {
    let mut buffer = [0u8; TEXTS_AT];
    ask(None, id, STATMOUNT_SB_BASIC, &mut buffer)?;
    let both = narrow(&buffer, MAJOR_AT).zip(wide(&buffer, MAGIC_AT)).map(|(major, magic)| Superblock { major, magic });
    both.ok_or_else(|| Error::new(format!("statmount({id})"), Errno::PROTO))
}

/// The unique id of the mount that a file is on (Linux 6.12), without calling its filesystem, as statx(2) would.
pub(crate) fn id_of(file: BorrowedFd<'_>) -> Option<u64> {
    /// The kernel's `struct file_handle`, with no space for a handle.
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
    }
    const AT_HANDLE_MNT_ID_UNIQUE: i32 = 0x1;
    const AT_HANDLE_FID: i32 = 0x200;
    let (mut handle, mut id) = (Handle { bytes: 0, kind: 0 }, 0u64);
    let flags = libc::AT_EMPTY_PATH | AT_HANDLE_FID | AT_HANDLE_MNT_ID_UNIQUE;
    // SAFETY: an empty C string; the kernel writes the head of a handle, and no more since its size is given as 0, and
    // one id.
    let result = unsafe { libc::syscall(libc::SYS_name_to_handle_at, file.as_raw_fd(), c"".as_ptr(), &raw mut handle, &raw mut id, flags) };
    // EOVERFLOW is the expected answer: the id was written, and the handle does not fit.
    checked(String::new, result).is_err_and(|error| error.errno() == Errno::OVERFLOW).then_some(id)
}

fn ask_with_texts(namespace: Option<u64>, id: u64, mask: u64) -> Result<Vec<u8>> {
    let mut buffer = vec![0u8; TEXTS_AT + 4096];
    loop {
        match ask(namespace, id, mask, &mut buffer) {
            Err(error) if error.errno() == Errno::OVERFLOW && buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 4, 0),
            Err(error) => return Err(error),
            Ok(()) => return Ok(buffer),
        }
    }
}

fn ask(namespace: Option<u64>, id: u64, mask: u64, buffer: &mut [u8]) -> Result<()> {
    let request = Request::new(namespace, id, mask);
    // SAFETY: the kernel reads the request and writes at most `buffer.len()` bytes.
    let result = unsafe { libc::syscall(SYS_STATMOUNT, &raw const request, buffer.as_mut_ptr(), buffer.len(), 0u32) };
    checked(|| format!("statmount({id})"), result).map(drop)
}

fn narrow(buffer: &[u8], at: usize) -> Option<u32> {
    buffer.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn wide(buffer: &[u8], at: usize) -> Option<u64> {
    buffer.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

/// The text whose offset is there.
fn text(buffer: &[u8], at: usize) -> Option<PathBuf> {
    let text = buffer.get(TEXTS_AT + narrow(buffer, at)? as usize..)?;
    let end = text.iter().position(|byte| *byte == 0)?;
    Some(PathBuf::from(OsString::from_vec(text[..end].to_vec())))
}
