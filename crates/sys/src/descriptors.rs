//! Sends and receives descriptors over a unix socket (SCM_RIGHTS), together with a few bytes.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::error::{Error, Result, call};

/// The largest number of descriptors in one message.
pub const LIMIT: usize = 10;

pub fn send(to: BorrowedFd<'_>, data: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LIMIT))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Error::new("sendmsg(SCM_RIGHTS)", Errno::MSGSIZE));
    }
    let sent = rustix::net::sendmsg(to, &[IoSlice::new(data)], &mut control, SendFlags::NOSIGNAL);
    call(|| "sendmsg(SCM_RIGHTS)".into(), sent).map(drop)
}

/// The number of bytes received, and the descriptors that came with them. 0 bytes: the other end is closed.
pub fn receive(from: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LIMIT))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        rustix::io::retry_on_intr(|| rustix::net::recvmsg(from, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC));
    let count = call(|| "recvmsg(SCM_RIGHTS)".into(), received)?.bytes;
    let fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok((count, fds.flatten().collect()))
}
