//! Answers a FUSE connection whose client is gone. In: the connection's descriptor. Out: how many requests were answered.
//!
//! A caller whose request is answered with ESTALE walks its path once more, and so reaches what is mounted there now. That works once
//! per call, so all places must have the new mount before anything is answered ([`crate::replace`]).
//!
//! What an answer is, is decided in one function, a [`Reply`] for each [`Request`]: whoever wants to serve more of the old connection
//! than ESTALE begins there, with [`all`].

mod creating;
mod request;

pub use request::{Reply, Request};

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use shorefast_sys as sys;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Requests that somebody waited for.
    pub requests: u64,
}

/// Answers every request with ESTALE until none has come for `quiet`, or until the deadline. The caller holds nothing else of the old
/// mount: it would wait for itself.
pub fn all_as_stale(connection: BorrowedFd<'_>, quiet: Duration, deadline: Instant) -> io::Result<Answered> {
    all(connection, quiet, deadline, |request| request.as_stale(|| creating::is_creating(request.thread)))
}

/// The same with other answers.
pub fn all(
    connection: BorrowedFd<'_>,
    quiet: Duration,
    deadline: Instant,
    mut decide: impl FnMut(&Request) -> Reply,
) -> io::Result<Answered> {
    // Nobody else reads from it any more: its client is gone.
    rustix::fs::fcntl_setfl(connection, OFlags::NONBLOCK | OFlags::RDWR)?;
    // What the client had read and not answered comes again (Linux 6.9). Before, nobody can answer it, and it fails in the end.
    let _ = rustix::io::write(connection, &request::RESEND);
    let mut answered = Answered::default();
    let mut buffer = vec![0u8; request::USUAL];
    let mut last = Instant::now();
    loop {
        match rustix::io::read(connection, &mut *buffer) {
            Ok(length) => {
                last = Instant::now();
                let Some(request) = Request::parse(&buffer[..length]) else { continue };
                if let Some(answer) = request.encode(decide(&request)) {
                    answered.requests += 1;
                    // ENOENT: its caller was killed and waits no more. Whatever else: the others are answered, too.
                    let _ = rustix::io::write(connection, &answer);
                }
            }
            Err(Errno::AGAIN) => {
                let end = deadline.min(last + quiet);
                // Also readable when the connection ends.
                if !sys::deadline::is_readable(connection, end)? && Instant::now() >= end {
                    return Ok(answered);
                }
            }
            // A request of another one was taken away while we were about to read it.
            Err(Errno::INTR | Errno::NOENT) => {}
            // The client had asked for larger writes. (The kernel refuses before it takes the request from its queue.)
            Err(Errno::INVAL) if buffer.len() < request::LARGEST => buffer.resize(buffer.len() * 4, 0),
            // Unmounted, and nobody holds it any more; or aborted.
            Err(Errno::NODEV | Errno::CONNABORTED | Errno::NOTCONN | Errno::PERM) => return Ok(answered),
            Err(errno) => return Err(errno.into()),
        }
        if Instant::now() >= deadline {
            return Ok(answered);
        }
    }
}
