//! What the launching process and the sandbox's first process say to each other, over a socket
//! of packets. Both ends are ours until the client is executed.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType,
};
use shorefast_sys as sys;

use crate::error::Error;
use crate::letter;
use crate::orders::{Descriptors, Entry, Orders};

/// From the sandbox.
#[derive(Debug)]
pub enum Word {
    /// The sandbox's first process, from the one that made it in a container.
    Born(OwnedFd),
    /// The empty root stands in this mount namespace.
    Standing(OwnedFd),
    /// The user namespace stands; the ids have to be mapped and the source moved in.
    Ready,
    /// The filter is on, and this hears of the client's calls.
    Filtered(OwnedFd),
    /// A step failed.
    Failed(String),
    /// The helper could not be executed.
    NotExecuted(String),
    /// The helper ended, with this wait status.
    HelperEnded(i32),
}

pub const GO: &[u8] = b"G";

const BORN: u8 = b'B';
const STANDING: u8 = b'S';
const READY: u8 = b'R';
const FILTERED: u8 = b'L';
const FAILED: u8 = b'E';
const NOT_EXECUTED: u8 = b'X';

pub fn pair() -> sys::Result<(OwnedFd, OwnedFd)> {
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    sys::call(|| "socketpair(SOCK_SEQPACKET)".into(), pair)
}

pub fn say_ready(to: BorrowedFd<'_>) -> sys::Result<()> {
    say(to, &[READY])
}

pub fn say_failed(to: BorrowedFd<'_>, text: &str) {
    // Nobody is left to hear of an error here; the silence itself is noticed.
    let _ = say(to, &tagged(FAILED, text));
}

pub fn say_not_executed(to: BorrowedFd<'_>, text: &str) {
    let _ = say(to, &tagged(NOT_EXECUTED, text));
}

/// Padded: a packet of four bytes is a wait status.
fn tagged(tag: u8, text: &str) -> Vec<u8> {
    [&[tag][..], b"    ", text.as_bytes()].concat()
}

pub fn say_born(to: BorrowedFd<'_>, process: &OwnedFd) -> sys::Result<()> {
    say_with(to, BORN, process)
}

pub fn say_standing(to: BorrowedFd<'_>, namespace: &OwnedFd) -> sys::Result<()> {
    say_with(to, STANDING, namespace)
}

pub fn say_filtered(to: BorrowedFd<'_>, listener: &OwnedFd) -> sys::Result<()> {
    say_with(to, FILTERED, listener)
}

fn say_with(to: BorrowedFd<'_>, tag: u8, fd: &OwnedFd) -> sys::Result<()> {
    let fds = [fd.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let sent = rustix::net::sendmsg(to, &[IoSlice::new(&[tag])], &mut control, SendFlags::NOSIGNAL);
    sys::call(|| "sendmsg(SCM_RIGHTS)".into(), sent).map(drop)
}

/// What the image holds.
pub fn say_entries(to: BorrowedFd<'_>, entries: &[Entry], trees: &[OwnedFd]) -> sys::Result<()> {
    letter::send(to, &entries, trees.iter())
}

pub fn say_orders(to: BorrowedFd<'_>, orders: &Orders, descriptors: &Descriptors) -> sys::Result<()> {
    let Descriptors { program, output_read, output_write, ring, source, shown, users } = descriptors;
    // The source comes last: whether the others are there is in the orders.
    letter::send(to, orders, [program, output_read, output_write, ring].into_iter().chain(shown).chain(users).chain(source))
}

/// In the sandbox: waits for what the image holds.
pub fn take_entries(from: BorrowedFd<'_>) -> sys::Result<(Vec<Entry>, Vec<OwnedFd>)> {
    letter::receive(from).map(|(entries, trees)| (entries, trees.collect()))
}

/// In the sandbox: waits for the orders.
pub fn take_orders(from: BorrowedFd<'_>) -> sys::Result<(Orders, Descriptors)> {
    let (orders, mut fds): (Orders, _) = letter::receive(from)?;
    let mut next = || fds.next().ok_or_else(|| sys::Error::new("recvmsg(orders)", rustix::io::Errno::PROTO));
    let (program, output_read, output_write, ring) = (next()?, next()?, next()?, next()?);
    let shown = orders.shown.iter().map(|_| next()).collect::<sys::Result<_>>()?;
    let users = if orders.joins_users { Some(next()?) } else { None };
    Ok((orders, Descriptors { program, output_read, output_write, ring, shown, users, source: fds.next() }))
}

/// In the sandbox: waits for the word that ids are mapped and the source is there.
pub fn wait_for_go(from: BorrowedFd<'_>) -> sys::Result<()> {
    let mut word = [0u8; 1];
    let received = rustix::net::recv(from, &mut word[..], RecvFlags::empty());
    let (_, n) = sys::call(|| "recv(control)".into(), received)?;
    if n == 1 && word == *GO { Ok(()) } else { sys::process::exit_now(1) }
}

pub fn say(to: BorrowedFd<'_>, bytes: &[u8]) -> sys::Result<()> {
    sys::call(|| "send(control)".into(), rustix::net::send(to, bytes, SendFlags::NOSIGNAL)).map(drop)
}

/// The next word, by `deadline`.
pub fn hear(from: BorrowedFd<'_>, deadline: Instant) -> Result<Word, Error> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = rustix::time::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    let mut fds = [PollFd::new(&from, PollFlags::IN)];
    match rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&timeout))) {
        Ok(0) => Err(Error::Late),
        Ok(_) => take(from),
        Err(errno) => Err(Error::Start(sys::Error::new("poll(control)", errno))),
    }
}

/// The word that `poll` said is there.
pub fn take(from: BorrowedFd<'_>) -> Result<Word, Error> {
    let mut buffer = [0u8; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(from, &mut [IoSliceMut::new(&mut buffer)], &mut control, RecvFlags::CMSG_CLOEXEC);
    let n = sys::call(|| "recvmsg(control)".into(), received).map_err(Error::Start)?.bytes;
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_start().to_owned();
    match (&buffer[..n], fd) {
        ([], _) => Err(Error::Ended),
        ([BORN], Some(process)) => Ok(Word::Born(process)),
        ([STANDING], Some(namespace)) => Ok(Word::Standing(namespace)),
        ([READY], _) => Ok(Word::Ready),
        ([FILTERED], Some(listener)) => Ok(Word::Filtered(listener)),
        ([a, b, c, d], _) => Ok(Word::HelperEnded(i32::from_ne_bytes([*a, *b, *c, *d]))),
        ([FAILED, rest @ ..], _) => Ok(Word::Failed(text(rest))),
        ([NOT_EXECUTED, rest @ ..], _) => Ok(Word::NotExecuted(text(rest))),
        _ => Err(Error::Ended),
    }
}
