//! statmount(2), Linux 6.8: a mount's unique id in, what the kernel knows of it out. No filesystem is called, and the
//! cost is the same on every host.

use std::ffi::OsString;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::error::{Error, Result, checked};

/// The kernel's `struct mnt_id_req`, first version.
#[repr(C)]
struct Request {
    size: u32,
    spare: u32,
    id: u64,
    mask: u64,
}

const SYS_STATMOUNT: libc::c_long = 457;
const SYS_LISTMOUNT: libc::c_long = 458;
const STATMOUNT_SB_BASIC: u64 = 0x1;
const STATMOUNT_MNT_BASIC: u64 = 0x2;
const STATMOUNT_MNT_POINT: u64 = 0x10;

// Offsets in `struct statmount`: the superblock's numbers, the parent's unique id, the reusable id, the offset of the
// mount point's text, and the start of the texts.
const MAJOR_AT: usize = 16;
const MAGIC_AT: usize = 24;
const PARENT_AT: usize = 48;
const OLD_ID_AT: usize = 56;
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
    let mut buffer = vec![0u8; TEXTS_AT + 4096];
    loop {
        match ask(id, STATMOUNT_MNT_POINT | STATMOUNT_MNT_BASIC, &mut buffer) {
            Err(error) if error.errno() == Errno::OVERFLOW && buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 4, 0),
            Err(error) => return Err(error),
            Ok(()) => break,
        }
    }
    let read = || {
        let offset = u32::from_ne_bytes(*buffer[POINT_AT..].first_chunk()?);
        let text = buffer.get(TEXTS_AT + offset as usize..)?;
        let end = text.iter().position(|byte| *byte == 0)?;
        Some(Attachment {
            point: PathBuf::from(OsString::from_vec(text[..end].to_vec())),
            parent: u64::from_ne_bytes(*buffer[PARENT_AT..].first_chunk()?),
            old_id: u32::from_ne_bytes(*buffer[OLD_ID_AT..].first_chunk()?).into(),
        })
    };
    read().ok_or_else(|| Error::new(format!("statmount({id})"), Errno::PROTO))
}

/// Whether anything is mounted on the mount, or below it.
pub(crate) fn has_children(id: u64) -> Result<bool> {
    let request = Request { size: size_of::<Request>() as u32, spare: 0, id, mask: 0 };
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

pub(crate) fn superblock(id: u64) -> Result<Superblock> {
    let mut buffer = [0u8; TEXTS_AT];
    ask(id, STATMOUNT_SB_BASIC, &mut buffer)?;
    let major = buffer[MAJOR_AT..].first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let magic = buffer[MAGIC_AT..].first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
    let both = major.zip(magic).map(|(major, magic)| Superblock { major, magic });
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

fn ask(id: u64, mask: u64, buffer: &mut [u8]) -> Result<()> {
    let request = Request { size: size_of::<Request>() as u32, spare: 0, id, mask };
    // SAFETY: the kernel reads the request and writes at most `buffer.len()` bytes.
    let result = unsafe { libc::syscall(SYS_STATMOUNT, &raw const request, buffer.as_mut_ptr(), buffer.len(), 0u32) };
    checked(|| format!("statmount({id})"), result).map(drop)
}
