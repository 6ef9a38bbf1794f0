//! In: the bind(2) and unix socket calls of a service that starts. Out: sockets bound for it, as far as its grants allow. The service is
//! taken to be hostile and has no privileges; its arguments are copied and judged, and the call is made for it, with the privilege for
//! ports that it lacks. A service that answers the kernel has its rpc_pipefs pipes opened here, as long as it lives.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use serde::{Deserialize, Serialize};
use shorefast_sys as sys;
use sys::seccomp::{self, NewFlags, Notification};

use crate::error::{Error, Refusal};
use crate::memory::{Memory, PATIENCE};
use crate::{descriptor, pipe};

/// An address at which a service may listen. Ports from 1024 on need no grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grant {
    Port(u16),
    /// Any reserved port (512 to 1023), by which peers recognise a process of root.
    ReservedPort,
    /// Its path `inside` the sandbox is `outside` on the host.
    Socket {
        inside: PathBuf,
        outside: PathBuf,
    },
    /// The kernel's requests for RPC credentials: its pipes in rpc_pipefs.
    Pipes,
}

/// Answers one service's calls while it starts.
#[derive(Debug)]
pub struct ServiceBroker<'a> {
    listener: OwnedFd,
    grants: &'a [Grant],
    /// The service's uid.
    user: u32,
    pub refused: Vec<Refusal>,
    /// A port that it requires, and that another program holds.
    pub taken: Option<u16>,
}

/// Bounds the memory that a flood of bad calls can take.
const REMEMBERED_REFUSALS: usize = 16;

impl<'a> ServiceBroker<'a> {
    pub fn new(listener: OwnedFd, grants: &'a [Grant], user: u32) -> Self {
        Self { listener, grants, user, refused: Vec::new(), taken: None }
    }

    /// Readable when a call is pending.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// For another process to continue with.
    pub fn into_listener(self) -> OwnedFd {
        self.listener
    }

    /// Receives one pending call and answers it.
    pub fn answer_next(&mut self) -> Result<(), Error> {
        let listener = self.listener.as_fd();
        let Some(call) = seccomp::receive(listener).map_err(Error::Receive)? else { return Ok(()) };
        let answer = match call.number {
            libc::SYS_socket => self.socket(&call),
            libc::SYS_bind => self.bind(&call).map(|()| Answered::No),
            libc::SYS_openat => self.open(&call),
            _ => Err(Refusal::policy(Errno::PERM, "a service mounts nothing")),
        };
        if matches!(answer, Ok(Answered::Yes)) {
            return Ok(());
        }
        let errno = answer.as_ref().map(|_| ()).map_err(|refusal| refusal.errno);
        self.refused.extend(answer.err().filter(|_| self.refused.len() < REMEMBERED_REFUSALS));
        seccomp::answer(self.listener.as_fd(), call.id, errno).map_err(Error::Answer).map(drop)
    }

    /// Only the unix family is intercepted.
    fn socket(&self, call: &Notification) -> Result<Answered, Refusal> {
        let kind = call.arguments[1] as i32;
        if kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != libc::SOCK_STREAM {
            return Err(Refusal::policy(Errno::ACCESS, "unix sockets of a service are streams"));
        }
        let socket = sys::namespace::unix_socket_apart()?;
        if kind & libc::SOCK_NONBLOCK != 0 {
            sys::call(|| "fcntl(O_NONBLOCK)".into(), rustix::fs::fcntl_setfl(&socket, rustix::fs::OFlags::NONBLOCK))?;
        }
        let flags = if kind & libc::SOCK_CLOEXEC == 0 { NewFlags::None } else { NewFlags::CloseOnExec };
        // If the caller is gone, there is nothing to answer.
        seccomp::answer_with(self.listener.as_fd(), call.id, socket.as_fd(), flags)?;
        Ok(Answered::Yes)
    }

    fn open(&self, call: &Notification) -> Result<Answered, Refusal> {
        if !self.grants.contains(&Grant::Pipes) {
            return Err(Refusal::policy(Errno::ACCESS, "the service may not open pipes"));
        }
        let pipe = pipe::open(call, self.listener.as_fd(), self.user)?;
        let flags = if call.arguments[2] as i32 & libc::O_CLOEXEC == 0 { NewFlags::None } else { NewFlags::CloseOnExec };
        seccomp::answer_with(self.listener.as_fd(), call.id, pipe.as_fd(), flags)?;
        Ok(Answered::Yes)
    }

    fn bind(&mut self, call: &Notification) -> Result<(), Refusal> {
        let [number, address, length, ..] = call.arguments;
        let unreadable = |errno| Refusal::policy(errno, "the service's memory cannot be read");
        let length = usize::try_from(length).ok().filter(|length| (2..=128).contains(length)).ok_or_else(|| unreadable(Errno::INVAL))?;
        let address = Memory::of(call.tid, Instant::now() + PATIENCE).bytes(address, length).map_err(unreadable)?;
        let bad = || Refusal::policy(Errno::BADF, "the service bound something that is not open");
        let socket = descriptor::of(call, self.listener.as_fd(), number)?.ok_or_else(bad)?;
        if !seccomp::is_waiting(self.listener.as_fd(), call.id) {
            return Err(Refusal::policy(Errno::INTR, "the service ended while it called"));
        }
        let place = judge(&address, self.grants)?;
        let bound = match &place {
            Place::V4(place) => rustix::net::bind(&socket, place),
            Place::V6(place) => rustix::net::bind(&socket, place),
            Place::Path(path) => SocketAddrUnix::new(*path).and_then(|place| rustix::net::bind(&socket, &place)),
        };
        if bound == Err(Errno::ADDRINUSE) {
            self.taken = place.port().filter(|port| self.grants.contains(&Grant::Port(*port))).or(self.taken);
        }
        Ok(sys::call(|| "bind(for a service)".to_owned(), bound)?)
    }
}

/// Whether performing the call has already answered it.
enum Answered {
    Yes,
    No,
}

/// The real address to bind.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    V4(SocketAddrV4),
    V6(SocketAddrV6),
    Path(&'a Path),
}

impl Place<'_> {
    fn port(&self) -> Option<u16> {
        match self {
            Self::V4(place) => Some(place.port()),
            Self::V6(place) => Some(place.port()),
            Self::Path(_) => None,
        }
    }
}

/// Judges a sockaddr written by the service, by its grants.
fn judge<'a>(address: &[u8], grants: &'a [Grant]) -> Result<Place<'a>, Refusal> {
    let short = || Refusal::policy(Errno::INVAL, "the service bound to a malformed address");
    let family = u16::from_ne_bytes(bytes(address, 0).ok_or_else(short)?);
    match i32::from(family) {
        libc::AF_INET => {
            let port = u16::from_be_bytes(bytes(address, 2).ok_or_else(short)?);
            let ip = Ipv4Addr::from(bytes::<4>(address, 4).ok_or_else(short)?);
            may_have(port, grants).map(|()| Place::V4(SocketAddrV4::new(ip, port)))
        }
        libc::AF_INET6 => {
            let port = u16::from_be_bytes(bytes(address, 2).ok_or_else(short)?);
            let flow = u32::from_be_bytes(bytes(address, 4).ok_or_else(short)?);
            let ip = Ipv6Addr::from(bytes::<16>(address, 8).ok_or_else(short)?);
            let scope = u32::from_ne_bytes(bytes(address, 24).ok_or_else(short)?);
            may_have(port, grants).map(|()| Place::V6(SocketAddrV6::new(ip, port, flow, scope)))
        }
        libc::AF_UNIX => {
            let said = &address[2..];
            let said = &said[..said.iter().position(|byte| *byte == 0).unwrap_or(said.len())];
            let grant = grants.iter().find_map(|grant| match grant {
                Grant::Socket { inside, outside } if inside.as_os_str().as_bytes() == said => Some(outside.as_path()),
                _ => None,
            });
            grant
                .map(Place::Path)
                .ok_or_else(|| Refusal::policy(Errno::ACCESS, format!("the service may not listen at {:?}", String::from_utf8_lossy(said))))
        }
        _ => Err(Refusal::policy(Errno::AFNOSUPPORT, "the service bound to an address of an unsupported family")),
    }
}

fn may_have(port: u16, grants: &[Grant]) -> Result<(), Refusal> {
    let opens = |grant: &Grant| match grant {
        Grant::Port(open) => *open == port,
        Grant::ReservedPort => (512..1024).contains(&port),
        Grant::Socket { .. } | Grant::Pipes => false,
    };
    if port == 0 || port >= 1024 || grants.iter().any(opens) {
        return Ok(());
    }
    Err(Refusal::policy(Errno::ACCESS, format!("the service may not have port {port}")))
}

fn bytes<const N: usize>(from: &[u8], at: usize) -> Option<[u8; N]> {
    from.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(port: u16) -> Vec<u8> {
        [&(libc::AF_INET as u16).to_ne_bytes()[..], &port.to_be_bytes(), &[127, 0, 0, 1], &[0; 8]].concat()
    }

    fn unix(path: &[u8]) -> Vec<u8> {
        [&(libc::AF_UNIX as u16).to_ne_bytes()[..], path].concat()
    }

    #[test]
    fn only_the_doors_that_are_open() {
        let socket = Grant::Socket { inside: "/run/a".into(), outside: "/host/a".into() };
        let rows: &[(&str, Vec<u8>, Vec<Grant>, bool)] = &[
            ("its port", v4(111), vec![Grant::Port(111)], true),
            ("another port of root's", v4(22), vec![Grant::Port(111), Grant::ReservedPort], false),
            ("a reserved port", v4(700), vec![Grant::ReservedPort], true),
            ("a reserved port that it does not need", v4(700), vec![Grant::Port(111)], false),
            ("everybody's port", v4(4000), vec![], true),
            ("any port", v4(0), vec![], true),
            ("its socket", unix(b"/run/a\0"), vec![socket.clone()], true),
            ("its socket without an end", unix(b"/run/a"), vec![socket.clone()], true),
            ("another socket", unix(b"/run/ab"), vec![socket.clone()], false),
            ("an abstract socket", unix(b"\0x"), vec![socket.clone()], false),
            ("no path", unix(b""), vec![socket], false),
            ("half an address", v4(4000)[..3].to_vec(), vec![], false),
            ("another family", vec![17, 0, 0, 0], vec![Grant::ReservedPort], false),
        ];
        for (name, address, grants, is_open) in rows {
            assert_eq!(judge(address, grants).is_ok(), *is_open, "{name}");
        }
    }

    #[test]
    fn an_ipv6_address_is_bound_as_written() {
        let address = [&(libc::AF_INET6 as u16).to_ne_bytes()[..], &111u16.to_be_bytes(), &[0; 4], &[0; 15], &[1], &[0; 4]].concat();
        let place = judge(&address, &[Grant::Port(111)]).unwrap();
        assert_eq!(place, Place::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 111, 0, 0)));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(address in proptest::collection::vec(proptest::num::u8::ANY, 2..130)) {
            let _ = judge(&address, &[Grant::Port(111), Grant::ReservedPort]);
        }
    }
}
