//! A container that is already running, in which a client is to run: a pid comes in, descriptors of its namespaces, its
//! cgroups and its environment go out.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::process::{Pid, PidfdFlags};
use shorefast_sys as sys;
use sys::bounded_call::{Bounded, OpenRequest};

use crate::cgroup::Groups;
use crate::error::Error;
use crate::joins::Joins;
use crate::spec::INIT_INSIDE;

/// Refers to the container by descriptors, so that a reused pid is never mistaken for it.
#[derive(Debug)]
pub struct Container {
    process: OwnedFd,
    pub(crate) mounts: OwnedFd,
    /// The network, ipc, uts and cgroup namespaces, in the order of `OTHERS`.
    others: Vec<OwnedFd>,
    /// `None`: the host's.
    users: Option<OwnedFd>,
    /// The uid of the container's root on the host.
    pub(crate) root: u32,
    /// Whether the container maps another uid that the sandbox's first process can use.
    pub(crate) has_spare_user: bool,
    pub(crate) environment: Vec<(Vec<u8>, Vec<u8>)>,
    groups: Groups,
}

const OTHERS: [&str; 4] = ["net", "ipc", "uts", "cgroup"];
const PATIENCE: Duration = Duration::from_secs(3);
/// The kernel allows more, but only to programs that raise the limit of their stack.
const LONGEST_ENVIRONMENT: usize = 2 << 20;

impl Container {
    /// `pid`: the container's first process, as reported by its runtime.
    pub fn of(pid: i32) -> Result<Self, Error> {
        let gone = || Error::ContainerGone { pid };
        let process = Pid::from_raw(pid).ok_or_else(gone)?;
        let pidfd = rustix::process::pidfd_open(process, PidfdFlags::empty()).map_err(|_| gone())?;
        let maps = fs::read_to_string(format!("/proc/{pid}/uid_map")).map_err(|_| gone())?;
        // Its first process may be any user's program, and can hang in execve for as long as it likes.
        let deadline = Instant::now() + PATIENCE;
        let hangs = || Error::ContainerHangs { pid };
        let opened = |result: sys::Result<OwnedFd>| result.map_err(|_| gone());
        let (mounts, users, others) = match namespaces(pid, deadline) {
            Bounded::Done([mounts, users, others @ ..]) => (opened(mounts)?, opened(users)?, others),
            Bounded::Failed(_) => return Err(gone()),
            Bounded::TimedOut => return Err(hangs()),
        };
        if is_ours(&mounts, "mnt") {
            return Err(Error::NoContainer { pid });
        }
        let read = match sys::bounded_call::read(format!("/proc/{pid}/environ").as_ref(), LONGEST_ENVIRONMENT, deadline) {
            Bounded::Done(bytes) => bytes,
            Bounded::Failed(_) => Vec::new(),
            Bounded::TimedOut => return Err(hangs()),
        };
        let container = Self {
            mounts,
            others: others.into_iter().map(opened).collect::<Result<_, _>>()?,
            users: Some(users).filter(|users| !is_ours(users, "user")),
            root: outside(&maps, 0).ok_or(Error::NoContainer { pid })?,
            has_spare_user: outside(&maps, INIT_INSIDE).is_some(),
            environment: environment(&read),
            groups: Groups::of(process).map_err(|_| gone())?,
            process: pidfd,
        };
        // The pidfd was opened first. If the process is still alive, everything above was read from it, not from a
        // later process with the same pid.
        if container.is_over() { Err(gone()) } else { Ok(container) }
    }

    /// Moves the client's processes into the container's cgroups. Done after the client has mounted: the device cgroup
    /// of a container without /dev/fuse forbids opening it, and is checked only when the device is opened.
    pub fn take_in(&self, first: Pid) -> Result<(), Error> {
        self.groups.take_in_all_of(first)
    }

    fn is_over(&self) -> bool {
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut [PollFd::new(&self.process, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// The descriptors that the sandbox's first process needs to join the container. The pid namespace is not among
    /// them: the container's processes can inspect every process in it, and may have the right to take it over with
    /// ptrace.
    pub(crate) fn joins(&self) -> sys::Result<Joins> {
        let dup = |fd: &OwnedFd| sys::call(|| "dup()".into(), fd.try_clone());
        Ok(Joins {
            process: dup(&self.process)?,
            namespaces: self.others.iter().map(dup).collect::<sys::Result<_>>()?,
            users: self.users.as_ref().map(dup).transpose()?,
        })
    }
}

/// Its mount and user namespaces, and then the others.
fn namespaces(pid: i32, deadline: Instant) -> Bounded<[sys::Result<OwnedFd>; 6]> {
    let [net, ipc, uts, cgroup] = OTHERS;
    let paths = ["mnt", "user", net, ipc, uts, cgroup].map(|kind| PathBuf::from(format!("/proc/{pid}/ns/{kind}")));
    sys::bounded_call::open_several(std::array::from_fn(|at| OpenRequest { path: &paths[at], flags: OFlags::RDONLY }), deadline)
}

fn is_ours(namespace: &OwnedFd, kind: &str) -> bool {
    let ours = fs::metadata(format!("/proc/thread-self/ns/{kind}")).ok().map(|ours| ours.ino());
    rustix::fs::fstat(namespace).ok().map(|theirs| theirs.st_ino) == ours
}

/// Maps `id` inside to the id outside. Each line of uid_map: first id inside, first id outside, count.
fn outside(maps: &str, id: u32) -> Option<u32> {
    maps.lines().find_map(|line| {
        let numbers: Vec<u32> = line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [inside, outside, count] = numbers[..] else { return None };
        id.checked_sub(inside).filter(|offset| *offset < count).and_then(|offset| outside.checked_add(offset))
    })
}

fn environment(bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let variable = |text: &[u8]| {
        let at = text.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        Some((text[..at].to_vec(), text[at + 1..].to_vec()))
    };
    bytes.split(|byte| *byte == 0).filter_map(variable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_looked_up_in_the_map() {
        let rows = [
            ("         0          0 4294967295\n", 0, Some(0)),
            ("0 100000 65536\n", 65_533, Some(165_533)),
            ("0 100000 1024\n", 65_533, None),
            ("1000 5000 1\n0 100000 1000\n", 0, Some(100_000)),
            ("", 0, None),
        ];
        for (maps, id, expected) in rows {
            assert_eq!(outside(maps, id), expected, "{maps:?}");
        }
    }

    #[test]
    fn an_environment_is_names_and_values() {
        let parsed = environment(b"PATH=/bin\0EMPTY=\0=odd\0none\0A=b=c\0");
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        assert_eq!(parsed, [pair("PATH", "/bin"), pair("EMPTY", ""), pair("A", "b=c")]);
    }
}
