//! The handshake as the launching process sees it. Orders, the signal to go on and the program of pid 1 go out; [`Event`]s
//! come in.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use shorefast_sys as sys;

use crate::error::Error;
use crate::handshake::{self, Event, FAILED, FILTERED, GO, NOT_EXECUTED, READY, STANDING};
use crate::joins::Joins;
use crate::orders::{Descriptors, Orders};
use crate::packet;

pub fn send_go(to: BorrowedFd<'_>) -> sys::Result<()> {
    handshake::say(to, GO)
}

pub fn send_orders(to: BorrowedFd<'_>, orders: &Orders, descriptors: &Descriptors) -> sys::Result<()> {
    let Descriptors { output_read, output_write, ring, joins } = descriptors;
    packet::send(to, orders, [output_read, output_write, ring].into_iter().chain(joins.iter().flat_map(Joins::descriptors)))
}

/// After `GO`: the program that becomes pid 1, and what it holds for us.
pub fn send_program(to: BorrowedFd<'_>, program: &OwnedFd, recipe: Option<&OwnedFd>) -> sys::Result<()> {
    packet::send(to, &(), std::iter::once(program).chain(recipe))
}

/// Waits for the next message, until `deadline`.
pub fn receive(from: BorrowedFd<'_>, deadline: Instant) -> Result<Event, Error> {
    handshake::stay_awake(from);
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
