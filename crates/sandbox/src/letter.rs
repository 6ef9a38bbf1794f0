//! More than a word, from the launching process to the sandbox's first: plain data and descriptors, of any number and size.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read as _, Seek as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::MemfdFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;
use shorefast_sys as sys;

/// Descriptors per packet: well below the kernel's 253.
const FDS: usize = 64;

/// The data is in memory that is nobody's file, for it may hold secrets; the descriptors go with it, some at a time.
pub fn send<'a>(to: BorrowedFd<'_>, data: &impl Serialize, descriptors: impl Iterator<Item = &'a OwnedFd>) -> sys::Result<()> {
    let written = write(data)?;
    let all: Vec<_> = std::iter::once(written.as_fd()).chain(descriptors.map(|fd| fd.as_fd())).collect();
    for part in all.chunks(FDS) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(part));
        let count = (all.len() as u32).to_ne_bytes();
        let sent = rustix::net::sendmsg(to, &[IoSlice::new(&count)], &mut control, SendFlags::NOSIGNAL);
        sys::call(|| "sendmsg(letter)".into(), sent)?;
    }
    Ok(())
}

/// In the sandbox: waits for a letter. Ends with the launching process.
pub fn receive<T: DeserializeOwned>(from: BorrowedFd<'_>) -> sys::Result<(T, impl Iterator<Item = OwnedFd>)> {
    let mut fds = Vec::new();
    loop {
        let mut count = [0u8; 4];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::net::recvmsg(from, &mut [IoSliceMut::new(&mut count)], &mut control, RecvFlags::CMSG_CLOEXEC);
        if sys::call(|| "recvmsg(letter)".into(), received)?.bytes == 0 {
            sys::process::exit_now(1);
        }
        fds.extend(control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
            _ => Vec::new(),
        }));
        if fds.len() as u32 >= u32::from_ne_bytes(count) {
            break;
        }
    }
    let mut fds = fds.into_iter();
    let data = fds.next().ok_or_else(|| sys::Error::new("recvmsg(letter)", rustix::io::Errno::PROTO))?;
    Ok((read(data)?, fds))
}

fn write(data: &impl Serialize) -> sys::Result<OwnedFd> {
    let memfd = rustix::fs::memfd_create("shorefast-letter", MemfdFlags::CLOEXEC);
    let mut file = File::from(sys::call(|| "memfd_create(\"shorefast-letter\")".into(), memfd)?);
    let bytes = postcard::to_allocvec(data).expect("plain data has a plain form");
    sys::call(|| "write(letter)".into(), file.write_all(&bytes))?;
    Ok(file.into())
}

fn read<T: DeserializeOwned>(from: OwnedFd) -> sys::Result<T> {
    let mut file = File::from(from);
    let mut bytes = Vec::new();
    sys::call(|| "read(letter)".into(), file.rewind().and_then(|()| file.read_to_end(&mut bytes)))?;
    postcard::from_bytes(&bytes).map_err(|_| sys::Error::new("read(letter)", rustix::io::Errno::PROTO))
}
