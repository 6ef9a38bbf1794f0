//! The protocol between the launching process and the sandbox's first process, over a SOCK_SEQPACKET pair. Both
//! processes run this module: `send_*`, `take_*` and [`wait_for_go`] belong to the first process, except
//! [`send_orders`] and [`send_program`]; those two, [`receive`] and [`take`] belong to the launching process. Both ends
//! run our code until the client is executed, so the messages are trusted.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use shorefast_sys as sys;

use crate::container::Joins;
use crate::error::Error;
use crate::orders::{Descriptors, Orders};
use crate::packet;

/// A message from the first process.
#[derive(Debug)]
pub enum Event {
    /// The empty root is mounted, in a new mount namespace.
    Standing,
    /// The user namespace exists; its ID mapping has to be written, and the source attached.
    Ready,
    /// The filter is installed, and this is its listener.
    Filtered(OwnedFd),
    Failed(String),
    NotExecuted(String),
    /// The helper exited, with this wait status. Sent by pid 1 ([`sys::shim`]).
    HelperEnded(i32),
}

pub const GO: &[u8] = b"G";

/// Typical reply latency of a peer on another CPU.
const ANY_MOMENT: Duration = Duration::from_micros(500);

const STANDING: u8 = b'S';
const READY: u8 = b'R';
const FILTERED: u8 = b'L';
const FAILED: u8 = b'E';
const NOT_EXECUTED: u8 = b'X';

pub fn pair() -> sys::Result<(OwnedFd, OwnedFd)> {
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    sys::call(|| "socketpair(SOCK_SEQPACKET)".into(), pair)
}

pub fn send_ready(to: BorrowedFd<'_>) -> sys::Result<()> {
    say(to, &[READY])
}

pub fn send_failed(to: BorrowedFd<'_>, text: &str) {
    // If the peer is gone, there is no way to report the error; end of file tells it enough.
    let _ = say(to, &tagged(FAILED, text));
}

pub fn send_not_executed(to: BorrowedFd<'_>, text: &str) {
    let _ = say(to, &tagged(NOT_EXECUTED, text));
}

/// Padded to more than four bytes: a packet of exactly four bytes is a wait status.
fn tagged(tag: u8, text: &str) -> Vec<u8> {
    [&[tag][..], b"    ", text.as_bytes()].concat()
}

pub fn send_standing(to: BorrowedFd<'_>) -> sys::Result<()> {
    say(to, &[STANDING])
}

pub fn send_filtered(to: BorrowedFd<'_>, listener: &OwnedFd) -> sys::Result<()> {
    sys::descriptors::send(to, &[FILTERED], &[listener.as_fd()])
}

pub fn send_orders(to: BorrowedFd<'_>, orders: &Orders, descriptors: &Descriptors) -> sys::Result<()> {
    let Descriptors { output_read, output_write, ring, joins } = descriptors;
    packet::send(to, orders, [output_read, output_write, ring].into_iter().chain(joins.iter().flat_map(Joins::descriptors)))
}

/// In the first process: waits for the orders.
pub fn take_orders(from: BorrowedFd<'_>) -> sys::Result<(Orders, Descriptors)> {
    sys::scheduling::stay_awake_for(ANY_MOMENT, || says_something(from));
    let (orders, mut fds): (Orders, _) = packet::receive(from)?;
    let too_few = || sys::Error::new("recvmsg(orders)", rustix::io::Errno::PROTO);
    let mut next = || fds.next().ok_or_else(too_few);
    let (output_read, output_write, ring) = (next()?, next()?, next()?);
    let joins = orders.joins.map(|outline| Joins::collect(outline, fds).ok_or_else(too_few)).transpose()?;
    Ok((orders, Descriptors { output_read, output_write, ring, joins }))
}

/// After `GO`: the program that becomes pid 1.
pub fn send_program(to: BorrowedFd<'_>, program: &OwnedFd) -> sys::Result<()> {
    packet::send(to, &(), std::iter::once(program))
}

/// In the first process: waits for the program.
pub fn take_program(from: BorrowedFd<'_>) -> sys::Result<OwnedFd> {
    let ((), mut fds) = packet::receive(from)?;
    fds.next().ok_or_else(|| sys::Error::new("recvmsg(program)", rustix::io::Errno::PROTO))
}

/// In the first process: waits until ID mapping, source and files are in place.
pub fn wait_for_go(from: BorrowedFd<'_>) -> sys::Result<()> {
    sys::scheduling::stay_awake_for(ANY_MOMENT, || says_something(from));
    let mut word = [0u8; 1];
    let received = rustix::net::recv(from, &mut word[..], RecvFlags::empty());
    let (_, n) = sys::call(|| "recv(control)".into(), received)?;
    if n == 1 && word == *GO { Ok(()) } else { sys::process::exit_now(1) }
}

pub fn say(to: BorrowedFd<'_>, bytes: &[u8]) -> sys::Result<()> {
    sys::call(|| "send(control)".into(), rustix::net::send(to, bytes, SendFlags::NOSIGNAL)).map(drop)
}

fn says_something(from: BorrowedFd<'_>) -> bool {
    sys::deadline::is_readable(from, Instant::now()) != Ok(false)
}

/// Waits for the next message, until `deadline`.
pub fn receive(from: BorrowedFd<'_>, deadline: Instant) -> Result<Event, Error> {
    sys::scheduling::stay_awake_for(ANY_MOMENT, || says_something(from));
    match sys::deadline::is_readable(from, deadline) {
        Ok(true) => take(from),
        Ok(false) => Err(Error::TimedOut),
        Err(errno) => Err(Error::Start(sys::Error::new("poll(control)", errno))),
    }
}

/// Receives a message that is already there.
pub fn take(from: BorrowedFd<'_>) -> Result<Event, Error> {
    let mut buffer = [0u8; 4096];
    let (n, fds) = sys::descriptors::receive(from, &mut buffer).map_err(Error::Start)?;
    let fd = fds.into_iter().next();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_start().to_owned();
    match (&buffer[..n], fd) {
        ([], _) => Err(Error::Ended),
        ([STANDING], _) => Ok(Event::Standing),
        ([READY], _) => Ok(Event::Ready),
        ([FILTERED], Some(listener)) => Ok(Event::Filtered(listener)),
        ([a, b, c, d], _) => Ok(Event::HelperEnded(i32::from_ne_bytes([*a, *b, *c, *d]))),
        ([FAILED, rest @ ..], _) => Ok(Event::Failed(text(rest))),
        ([NOT_EXECUTED, rest @ ..], _) => Ok(Event::NotExecuted(text(rest))),
        _ => Err(Error::Ended),
    }
}
