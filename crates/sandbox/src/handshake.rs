//! The protocol between the launching process and the sandbox's first process, over a SOCK_SEQPACKET pair: the messages
//! and their form. Both processes run this module. Each has its own end in a module of its own:
//! [`crate::launcher::control`] and [`crate::child::control`]. Both ends run our code until the client is executed, so the
//! messages are trusted.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use shorefast_sys as sys;

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

pub(crate) const STANDING: u8 = b'S';
pub(crate) const READY: u8 = b'R';
pub(crate) const FILTERED: u8 = b'L';
pub(crate) const FAILED: u8 = b'E';
pub(crate) const NOT_EXECUTED: u8 = b'X';

pub fn pair() -> sys::Result<(OwnedFd, OwnedFd)> {
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    sys::call(|| "socketpair(SOCK_SEQPACKET)".into(), pair)
}

pub fn say(to: BorrowedFd<'_>, bytes: &[u8]) -> sys::Result<()> {
    sys::call(|| "send(control)".into(), rustix::net::send(to, bytes, SendFlags::NOSIGNAL)).map(drop)
}

/// Polls for a moment before the caller sleeps: an idle CPU takes a while to wake up.
pub(crate) fn stay_awake(from: BorrowedFd<'_>) {
    sys::scheduling::stay_awake_for(ANY_MOMENT, || sys::deadline::is_readable(from, Instant::now()) != Ok(false));
}
