//! Descriptors that come from elsewhere: over a unix socket (SCM_RIGHTS), together with a few bytes, or at a fixed number from the process
//! that executed us.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

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

/// From Linux 6.16, senders to this unix socket cannot send descriptors. Before that, read(2) drops those that come.
pub fn take_none(socket: BorrowedFd<'_>) {
    const SO_PASSRIGHTS: libc::c_int = 83;
    let off: libc::c_int = 0;
    // SAFETY: the value is a live local of the length given. Older kernels fail with ENOPROTOOPT.
    unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, (&raw const off).cast(), size_of_val(&off) as u32) };
}

/// A copy of the descriptor that this process was given at a fixed number; the copy is close-on-exec. `None`: there is no such descriptor.
pub fn copy_of(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: a number in, a number out; the call touches no memory.
    let copied = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    // The original must not reach the programs that we start: it would keep the other end alive.
    // SAFETY: changes one flag of a descriptor, whatever it is; the call touches no memory.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: the kernel made this descriptor a line above for us alone.
    (copied >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copied) })
}

/// The same, and the original is closed: dropping the result ends this process's hold on it. To be called before any other
/// descriptor is opened: the number must still be the descriptor that the process was given.
pub fn take(number: RawFd) -> Option<OwnedFd> {
    let copy = copy_of(number)?;
    // SAFETY: no OwnedFd owns the number, by the contract above.
    unsafe { libc::close(number) };
    Some(copy)
}
