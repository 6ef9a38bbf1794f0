//! Sockets that a supervisor such as systemd opened for us (`LISTEN_FDS`). In: the environment. Out: descriptors with their names.

use std::os::fd::{OwnedFd, RawFd};

use crate::descriptors;

/// The first descriptor that is passed, by the protocol.
const FIRST: RawFd = 3;
/// More than any supervisor passes: a wrong number must not make us check a billion descriptors.
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
    passed.filter_map(|(number, name)| descriptors::copy_of(number).map(|socket| Passed { name, socket })).collect()
}
