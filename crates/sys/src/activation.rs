//! Sockets that a supervisor such as systemd opened for us (`LISTEN_FDS`). In: the environment. Out: descriptors with their names.

use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

/// The first descriptor that is passed, by the protocol.
const FIRST: RawFd = 3;
/// More than anybody passes: a wrong number must not make us look at a billion descriptors.
const MOST: RawFd = 64;

/// A socket and the name that its unit gives it.
#[derive(Debug)]
pub struct Passed {
    pub name: String,
    pub socket: OwnedFd,
}

/// The sockets that were passed to this process; none if the variables are meant for another one. Copies: the originals stay open.
pub fn sockets() -> Vec<Passed> {
    let variable = |name: &str| std::env::var(name).ok();
    let is_for_us = variable("LISTEN_PID").and_then(|pid| pid.parse().ok()) == Some(std::process::id());
    let count = variable("LISTEN_FDS").filter(|_| is_for_us).and_then(|count| count.parse::<RawFd>().ok()).unwrap_or(0);
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let passed = (FIRST..FIRST + count.clamp(0, MOST)).map(|number| (number, names.next().unwrap_or_default().to_owned()));
    passed.filter_map(|(number, name)| copy(number).map(|socket| Passed { name, socket })).collect()
}

/// Close-on-exec, unlike what was passed. `None`: there is no such descriptor.
fn copy(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: a number in, a number out; the call touches no memory.
    let copied = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, FIRST) };
    // The original must not reach the programs that we start: it would keep the socket alive.
    // SAFETY: changes one flag of a descriptor, whatever it is; the call touches no memory.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: the kernel made this descriptor a line above for us alone.
    (copied >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copied) })
}
