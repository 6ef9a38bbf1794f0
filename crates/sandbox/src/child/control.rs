//! The handshake as the sandbox's first process sees it. Events go out; orders, the signal to go on and the program of pid 1
//! come in. End of file means that the launching process died, and ends this process, too.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::net::RecvFlags;
use shorefast_sys as sys;

use crate::handshake::{self, FAILED, FILTERED, GO, NOT_EXECUTED, READY, STANDING};
use crate::joins::Joins;
use crate::orders::{Descriptors, Orders};
use crate::packet;

pub fn send_ready(to: BorrowedFd<'_>) -> sys::Result<()> {
    handshake::say(to, &[READY])
}

pub fn send_failed(to: BorrowedFd<'_>, text: &str) {
    // If the peer is gone, there is no way to report the error; end of file tells it enough.
    let _ = handshake::say(to, &tagged(FAILED, text));
}

pub fn send_not_executed(to: BorrowedFd<'_>, text: &str) {
    let _ = handshake::say(to, &tagged(NOT_EXECUTED, text));
}

/// Padded to more than four bytes: a packet of exactly four bytes is a wait status.
fn tagged(tag: u8, text: &str) -> Vec<u8> {
    [&[tag][..], b"    ", text.as_bytes()].concat()
}

pub fn send_standing(to: BorrowedFd<'_>) -> sys::Result<()> {
    handshake::say(to, &[STANDING])
}

pub fn send_filtered(to: BorrowedFd<'_>, listener: &OwnedFd) -> sys::Result<()> {
    sys::descriptors::send(to, &[FILTERED], &[listener.as_fd()])
}

/// Waits for the orders.
pub fn take_orders(from: BorrowedFd<'_>) -> sys::Result<(Orders, Descriptors)> {
    handshake::stay_awake(from);
    let (orders, mut fds): (Orders, _) = packet::receive(from)?;
    let too_few = || sys::Error::new("recvmsg(orders)", rustix::io::Errno::PROTO);
    let mut next = || fds.next().ok_or_else(too_few);
    let (output_read, output_write, ring) = (next()?, next()?, next()?);
    let joins = orders.joins.map(|outline| Joins::collect(outline, fds).ok_or_else(too_few)).transpose()?;
    Ok((orders, Descriptors { output_read, output_write, ring, joins }))
}

/// Waits for the program, and for what it is to hold.
pub fn take_program(from: BorrowedFd<'_>) -> sys::Result<(OwnedFd, Option<OwnedFd>)> {
    let ((), mut fds) = packet::receive(from)?;
    let program = fds.next().ok_or_else(|| sys::Error::new("recvmsg(program)", rustix::io::Errno::PROTO))?;
    Ok((program, fds.next()))
}

/// Waits until ID mapping, source and files are in place.
pub fn wait_for_go(from: BorrowedFd<'_>) -> sys::Result<()> {
    handshake::stay_awake(from);
    let mut word = [0u8; 1];
    let received = rustix::net::recv(from, &mut word[..], RecvFlags::empty());
    let (_, n) = sys::call(|| "recv(control)".into(), received)?;
    if n == 1 && word == *GO { Ok(()) } else { sys::process::exit_now(1) }
}
