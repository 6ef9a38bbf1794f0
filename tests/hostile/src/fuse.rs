//! A FUSE server that answers as little as a row wants. In: a mounted /dev/fuse. Out: never anything useful.
//!
//! It knows a file `trap`, which can be opened and mapped, and whose content never arrives; a file `harm`, which is there once
//! the server has done some; and a file `over`, which is there once it has stopped trying.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sandbox::{Sandbox, mount};
use crate::sys::{self, Answer, Errno};

/// How far the server goes along with the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manners {
    /// Not even FUSE_INIT is answered.
    Silent,
    /// FUSE_INIT is answered with nonsense.
    Garbled,
    /// FUSE_INIT is answered, nothing after it.
    OnlyInit,
    /// All that is needed to open `trap`; reads of it wait for ever.
    Trap,
    /// The same as another user's filesystem, which a client is shown: to look up `below` waits for ever, and so does to list the
    /// root, or to ask for the attributes of `stale`, which can be opened.
    Foreign,
    /// All that is needed to open `trap`; closing it waits for ever.
    NeverClosed,
}

pub(crate) const TRAP: &str = "trap";

const STALE: u64 = 5;

/// Makes the file `harm` appear.
pub(crate) static HARM: AtomicBool = AtomicBool::new(false);

/// Makes the file `over` appear.
pub(crate) static OVER: AtomicBool = AtomicBool::new(false);

pub(crate) fn open_device() -> Answer<OwnedFd> {
    sys::open(c"/dev/fuse", libc::O_RDWR)
}

/// The options of a plain FUSE mount, as libfuse gives them.
pub(crate) fn options(fd: &str) -> String {
    format!("fd={fd},rootmode=40000,user_id={},group_id={}", sys::uid(), sys::gid())
}

pub(crate) fn mount_device(sandbox: &Sandbox, device: &OwnedFd) -> Answer {
    // As clients of shared filesystems ask for, and as we need to look into our own mount.
    let options = format!("{},allow_other", options(&device.as_raw_fd().to_string()));
    let options = std::ffi::CString::new(options).map_err(|_| Errno(libc::EINVAL))?;
    mount(c"hostile", &sandbox.target, c"fuse", libc::MS_NOSUID | libc::MS_NODEV, &options)
}

/// On the host, as root: a filesystem for others to be shown. Serves until it is killed.
pub(crate) fn serve_as_foreign(target: &std::ffi::CStr) -> Answer {
    serve(mount_on_host(c"foreign", target)?, Manners::Foreign);
    Ok(0)
}

/// For a client that may mount by itself.
pub(crate) fn mount_on_host(name: &std::ffi::CStr, target: &std::ffi::CStr) -> Answer<OwnedFd> {
    let device = open_device()?;
    let options = format!("{},allow_other", options(&device.as_raw_fd().to_string()));
    let options = std::ffi::CString::new(options).map_err(|_| Errno(libc::EINVAL))?;
    mount(name, target, c"fuse", 0, &options)?;
    Ok(device)
}

/// Serves until the connection ends.
pub(crate) fn serve(device: OwnedFd, manners: Manners) {
    let mut device = File::from(device);
    let mut request = vec![0u8; 1 << 20];
    loop {
        match device.read(&mut request) {
            Ok(length) if length >= 40 => {
                if let Some(reply) = answer(&request[..length], manners) {
                    let _ = device.write_all(&reply);
                }
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            _ => return,
        }
    }
}

/// Answers so many requests, and then takes one more and no other, says so, and waits for ever.
pub(crate) fn serve_some(device: OwnedFd, mut answers: u32, way: &str) {
    let mut device = File::from(device);
    let mut request = vec![0u8; 1 << 20];
    while let Ok(length) = device.read(&mut request) {
        let Some(reply) = request.get(..length).filter(|_| length >= 40).and_then(|request| answer(request, Manners::Trap)) else {
            continue;
        };
        if answers == 0 {
            eprintln!("stalled {way}");
            loop {
                std::thread::park();
            }
        }
        answers -= 1;
        let _ = device.write_all(&reply);
    }
}

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const READDIR: u32 = 28;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
const READDIRPLUS: u32 = 44;

fn answer(request: &[u8], manners: Manners) -> Option<Vec<u8>> {
    let opcode = u32_at(request, 4);
    let unique = u64_at(request, 8);
    let node = u64_at(request, 16);
    match (opcode, manners) {
        (_, Manners::Silent) | (FORGET | BATCH_FORGET | INTERRUPT | READ, _) => None,
        (INIT, Manners::Garbled) => Some(reply(unique, 0, &[0xff; 61])),
        (INIT, _) => Some(reply(unique, 0, &init())),
        (_, Manners::OnlyInit | Manners::Garbled) => None,
        (FLUSH, Manners::NeverClosed) => None,
        (_, Manners::NeverClosed) => answer(request, Manners::Trap),
        (GETATTR, Manners::Trap) => {
            let valid = [3600u64.to_ne_bytes(), [0; 8]].concat();
            Some(reply(unique, 0, &[valid, attributes(node)].concat()))
        }
        (LOOKUP, Manners::Trap) => Some(lookup(unique, &request[40..])),
        (GETATTR, Manners::Foreign) if node == STALE => None,
        (GETATTR, Manners::Foreign) => answer(request, Manners::Trap),
        (LOOKUP, Manners::Foreign) if request[40..].starts_with(b"below\0") => None,
        (READDIR | READDIRPLUS, Manners::Foreign) => None,
        (LOOKUP, Manners::Foreign) => Some(lookup(unique, &request[40..])),
        (OPEN, Manners::Trap | Manners::Foreign) => Some(reply(unique, 0, &[0; 16])),
        (_, Manners::Trap | Manners::Foreign) => Some(reply(unique, -libc::ENOSYS, &[])),
    }
}

fn lookup(unique: u64, name: &[u8]) -> Vec<u8> {
    let node = match name.strip_suffix(b"\0") {
        Some(b"trap") => 2u64,
        Some(b"harm") if HARM.load(Ordering::Relaxed) => 3,
        Some(b"over") if OVER.load(Ordering::Acquire) => 4,
        Some(b"stale") => STALE,
        _ => return reply(unique, -libc::ENOENT, &[]),
    };
    let attributes_for = if node == STALE { 0 } else { 3600 };
    let head: Vec<u8> = [node, 0, 3600, attributes_for, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
    reply(unique, 0, &[head, attributes(node)].concat())
}

/// struct fuse_init_out: protocol 7.31, no feature asked for.
fn init() -> Vec<u8> {
    let mut out: Vec<u8> = [7u32, 31, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
    out.extend([12u16, 9].iter().flat_map(|half| half.to_ne_bytes()));
    out.extend([4096u32, 1].iter().flat_map(|word| word.to_ne_bytes()));
    out.resize(64, 0);
    out
}

/// struct fuse_attr: node 1 is the root directory, any other the trap, which is 1 MiB long.
fn attributes(node: u64) -> Vec<u8> {
    let (mode, size) = if node == 1 { (libc::S_IFDIR | 0o777, 0) } else { (libc::S_IFREG | 0o666, 1u64 << 20) };
    let mut out: Vec<u8> = [node, size, size / 512, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let words = [0, 0, 0, mode, 1, sys::uid(), sys::gid(), 0, 4096, 0];
    out.extend(words.iter().flat_map(|word: &u32| word.to_ne_bytes()));
    out
}

fn reply(unique: u64, error: i32, body: &[u8]) -> Vec<u8> {
    let length = 16 + body.len() as u32;
    let mut out = Vec::with_capacity(length as usize);
    out.extend(length.to_ne_bytes());
    out.extend(error.to_ne_bytes());
    out.extend(unique.to_ne_bytes());
    out.extend(body);
    out
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(bytes[offset..offset + 4].try_into().expect("four bytes were asked for"))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_ne_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes were asked for"))
}
