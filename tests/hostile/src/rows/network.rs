//! The host's network namespace is ours too: what of it may be used is sockets to servers, and nothing else.

use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};

use libc::c_int;

use super::files::WITNESS;
use crate::outcome::{Outcome, any_of, first_harm, harm_if_ok, refused, succeeded};
use crate::sys::{self, Answer, Errno, at, at_mut};

/// The driver listens here, on the host.
pub(super) const PROBE: &str = "shorefast-probe";

fn socket(family: c_int, kind: c_int, protocol: c_int) -> Answer<OwnedFd> {
    sys::fd_call(libc::SYS_socket, [family as usize, (kind | libc::SOCK_CLOEXEC) as usize, protocol as usize])
}

pub(super) fn opens_socket(family: c_int, kinds: &[c_int], protocol: c_int) -> Outcome {
    any_of(kinds.iter(), |kind| harm_if_ok(socket(family, *kind, protocol), format!("a socket of family {family}, type {kind}")))
}

/// All families but unix, inet, inet6 and netlink, which clients need.
pub(super) fn opens_other_families() -> Outcome {
    let needed = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let kinds = [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET, libc::SOCK_RAW];
    any_of((0..64).filter(|family| !needed.contains(family)), |family| opens_socket(family, &kinds, 0))
}

/// Protocols of the internet families that are modules of their own, loaded on demand: SCTP, DCCP, L2TP.
pub(super) fn opens_other_protocols() -> Outcome {
    const L2TP: c_int = 115;
    let pairs = [
        (libc::SOCK_STREAM, libc::IPPROTO_SCTP),
        (libc::SOCK_SEQPACKET, libc::IPPROTO_SCTP),
        (libc::SOCK_DCCP, libc::IPPROTO_DCCP),
        (libc::SOCK_DGRAM, L2TP),
    ];
    any_of(pairs, |(kind, protocol)| harm_if_ok(socket(libc::AF_INET, kind, protocol), format!("a socket of protocol {protocol}")))
}

/// DCCP, by its type alone; RDM and the old packet type. The kernel looks for a module by family, protocol and type.
pub(super) fn opens_other_types() -> Outcome {
    const PACKET: c_int = 10;
    any_of([libc::SOCK_DCCP, libc::SOCK_RDM, PACKET], |kind| match socket(libc::AF_INET, kind, 0) {
        Err(Errno(libc::ESOCKTNOSUPPORT)) => refused("ESOCKTNOSUPPORT"),
        answer => succeeded(format!("the kernel was asked for type {kind}: {:?}", answer.map(drop))),
    })
}

/// XFRM, audit, device events, generic netlink and what else has a number: each a way into the kernel, or a module.
pub(super) fn opens_other_netlink() -> Outcome {
    let kinds = [libc::SOCK_RAW, libc::SOCK_DGRAM, libc::SOCK_RAW | libc::SOCK_NONBLOCK];
    any_of(1..32, |protocol| opens_socket(libc::AF_NETLINK, &kinds, protocol))
}

fn pair(family: c_int, kind: c_int, protocol: c_int) -> Answer<(OwnedFd, OwnedFd)> {
    let mut both = [-1i32; 2];
    sys::call(libc::SYS_socketpair, [family as usize, kind as usize, protocol as usize, at_mut(&mut both)])?;
    Ok((sys::own(both[0]), sys::own(both[1])))
}

/// Of all families only unix has pairs; that the kernel says so, and not that there is no such family, means that it was loaded.
pub(super) fn pairs_other_families() -> Outcome {
    let kinds = [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET, libc::SOCK_RAW, libc::SOCK_RDM];
    first_harm((0..64).filter(|family| *family != libc::AF_UNIX).flat_map(|family| {
        kinds.map(|kind| match pair(family, kind, 0) {
            Err(Errno(libc::EAFNOSUPPORT)) => refused("EAFNOSUPPORT"),
            answer => succeeded(format!("the kernel was asked for family {family}, type {kind}: {:?}", answer.map(drop))),
        })
    }))
}

/// A datagram socket is a datagram socket, also one that is born connected. A raw one is one, too.
pub(super) fn sends_from_pair() -> Outcome {
    let name = format!("{PROBE}-datagram");
    let mut address = vec![0u8; 3 + name.len()];
    address[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    address[3..].copy_from_slice(name.as_bytes());
    any_of([libc::SOCK_DGRAM, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, libc::SOCK_RAW, libc::SOCK_RAW | libc::SOCK_NONBLOCK], |kind| {
        let Ok((ours, _theirs)) = pair(libc::AF_UNIX, kind, 0) else { return refused("no such pair") };
        let ours = ours.as_raw_fd() as usize;
        let to = [at(address.as_slice()), address.len()];
        first_harm([
            harm_if_ok(sys::call(libc::SYS_sendto, [ours, at(c"hostile"), 7, 0, to[0], to[1]]), "a datagram to a service of the host"),
            harm_if_ok(sys::call(libc::SYS_connect, [ours, to[0], to[1]]), "connected to a service of the host"),
        ])
    })
}

pub(super) fn connects_to_abstract() -> Outcome {
    let address = SocketAddr::from_abstract_name(PROBE).expect("the name is short");
    harm_if_ok(UnixStream::connect_addr(&address).map_err(Errno::from), "connected to a service of the host")
}

pub(super) fn sends_to_abstract() -> Outcome {
    let address = SocketAddr::from_abstract_name(format!("{PROBE}-datagram")).expect("the name is short");
    let answer = UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(b"hostile", &address));
    harm_if_ok(answer.map_err(Errno::from), "a datagram to a service of the host")
}

/// Every abstract name that the kernel lists.
pub(super) fn connects_to_any_abstract() -> Outcome {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let names = table.lines().filter_map(|line| line.split_whitespace().nth(7)?.strip_prefix('@'));
    any_of(names, |name| match SocketAddr::from_abstract_name(name) {
        Ok(address) => {
            let stream = UnixStream::connect_addr(&address).map(drop);
            let datagram = UnixDatagram::unbound().and_then(|socket| socket.connect_addr(&address));
            harm_if_ok(stream.or(datagram).map_err(Errno::from), format!("connected to @{name}"))
        }
        Err(error) => refused(Errno::from(error).to_string()),
    })
}

pub(super) fn connects_to_paths() -> Outcome {
    let roots = ["", "/proc/1/root", "/proc/self/root/../.."];
    let sockets = [
        format!("/run/{WITNESS}.sock"),
        format!("/tmp/{WITNESS}.sock"),
        "/run/systemd/private".into(),
        "/run/systemd/journal/stdout".into(),
        "/run/dbus/system_bus_socket".into(),
        "/var/run/docker.sock".into(),
        "/run/containerd/containerd.sock".into(),
        "/dev/log".into(),
    ];
    first_harm(roots.iter().flat_map(|root| {
        sockets
            .iter()
            .map(move |path| harm_if_ok(UnixStream::connect(format!("{root}{path}")).map_err(Errno::from), format!("connected to {path}")))
    }))
}

/// One netlink request that must be acknowledged; the answer is the kernel's verdict on it.
fn netlink(protocol: c_int, kind: u16, flags: u16, body: &[u8]) -> Answer {
    const REQUEST: u16 = 1;
    const ACKNOWLEDGE: u16 = 4;
    let fd = socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
    let mut message = Vec::new();
    message.extend((16 + body.len() as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((flags | REQUEST | ACKNOWLEDGE).to_ne_bytes());
    message.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    message.extend(body);
    let fd = fd.as_raw_fd() as usize;
    let kernel = [libc::AF_NETLINK as u32, 0, 0];
    sys::call(libc::SYS_sendto, [fd, at(message.as_slice()), message.len(), 0, at(&kernel), 12])?;
    let timeout = [1i64, 0];
    let _ = sys::call(libc::SYS_setsockopt, [fd, libc::SOL_SOCKET as usize, libc::SO_RCVTIMEO as usize, at(&timeout), 16]);
    let mut reply = [0u8; 4096];
    let length = sys::call(libc::SYS_recvfrom, [fd, at_mut(&mut reply), reply.len(), 0, 0, 0])?;
    let error = reply.get(16..20).filter(|_| length >= 20).and_then(|bytes| bytes.try_into().ok()).map_or(libc::EIO, i32::from_ne_bytes);
    if error == 0 { Ok(0) } else { Err(Errno(-error)) }
}

const CREATE: u16 = 0x400;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend((4 + value.len() as u16).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

pub(super) fn adds_interface() -> Outcome {
    const RTM_NEWLINK: u16 = 16;
    const NAME: u16 = 3;
    const LINK_INFO: u16 = 18;
    any_of([&b"dummy"[..], b"bridge", b"ifb"], |kind| {
        let body = [vec![0; 16], attribute(NAME, b"hostile0\0"), attribute(LINK_INFO, &attribute(1, kind))].concat();
        harm_if_ok(netlink(libc::NETLINK_ROUTE, RTM_NEWLINK, CREATE, &body), "a new network interface")
    })
}

/// 198.51.100.0/24 through the loopback interface: no host has such an address.
pub(super) fn adds_route() -> Outcome {
    const RTM_NEWROUTE: u16 = 24;
    let header = vec![libc::AF_INET as u8, 24, 0, 0, 254, 4, 253, 1, 0, 0, 0, 0];
    let body = [header, attribute(1, &[198, 51, 100, 0]), attribute(4, &1u32.to_ne_bytes())].concat();
    harm_if_ok(netlink(libc::NETLINK_ROUTE, RTM_NEWROUTE, CREATE, &body), "a new route")
}

pub(super) fn adds_address() -> Outcome {
    const RTM_NEWADDR: u16 = 20;
    let header = [vec![libc::AF_INET as u8, 32, 0, 254], 1u32.to_ne_bytes().to_vec()].concat();
    let body = [header, attribute(2, &[127, 77, 77, 77]), attribute(1, &[127, 77, 77, 77])].concat();
    harm_if_ok(netlink(libc::NETLINK_ROUTE, RTM_NEWADDR, CREATE, &body), "a new address on the loopback interface")
}

/// The firewall: a batch that would add a table.
pub(super) fn changes_firewall() -> Outcome {
    const NFT_NEWTABLE: u16 = 10 << 8;
    const IPT_GET_INFO: usize = 64;
    let body = [vec![libc::AF_INET as u8, 0, 0, 0], attribute(1, b"hostile\0")].concat();
    let mut info = [0u8; 84];
    let mut length = 84u32;
    info[..6].copy_from_slice(b"filter");
    let raw = socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW).or_else(|_| socket(libc::AF_INET, libc::SOCK_DGRAM, 0));
    let table = raw
        .and_then(|fd| sys::call(libc::SYS_getsockopt, [fd.as_raw_fd() as usize, 0, IPT_GET_INFO, at_mut(&mut info), at_mut(&mut length)]));
    first_harm([
        harm_if_ok(netlink(libc::NETLINK_NETFILTER, NFT_NEWTABLE, CREATE, &body), "a firewall table"),
        harm_if_ok(table, "the firewall's rules"),
    ])
}

/// Audit records of a client are lies.
pub(super) fn writes_audit() -> Outcome {
    const USER_MESSAGE: u16 = 1112;
    const SET_STATUS: u16 = 1001;
    first_harm([
        harm_if_ok(netlink(libc::NETLINK_AUDIT, USER_MESSAGE, 0, b"hostile\0"), "an audit record"),
        harm_if_ok(netlink(libc::NETLINK_AUDIT, SET_STATUS, 0, &[0; 40]), "audit settings"),
    ])
}

/// Device events that udev acts on, as if the kernel had sent them.
pub(super) fn sends_device_events() -> Outcome {
    let Ok(fd) = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT) else { return refused("no such socket") };
    let groups = [libc::AF_NETLINK as u32, 0, 2];
    let text = b"libudev\0hostile";
    harm_if_ok(sys::call(libc::SYS_sendto, [fd.as_raw_fd() as usize, at(text), text.len(), 0, at(&groups), 12]), "a device event")
}

/// The loopback interface, set to the flags that it has.
pub(super) fn sets_interface_flags() -> Outcome {
    const SIOCGIFFLAGS: usize = 0x8913;
    const SIOCSIFFLAGS: usize = 0x8914;
    const SIOCSIFMTU: usize = 0x8922;
    const SIOCGIFMTU: usize = 0x8921;
    let Ok(fd) = socket(libc::AF_INET, libc::SOCK_DGRAM, 0) else { return refused("no socket") };
    let fd = fd.as_raw_fd() as usize;
    any_of([(SIOCGIFFLAGS, SIOCSIFFLAGS), (SIOCGIFMTU, SIOCSIFMTU)], |(get, set)| {
        let mut request = [0u8; 40];
        request[..2].copy_from_slice(b"lo");
        let _ = sys::call(libc::SYS_ioctl, [fd, get, at_mut(&mut request)]);
        harm_if_ok(sys::call(libc::SYS_ioctl, [fd, set, at(&request)]), "the loopback interface was set")
    })
}

pub(super) fn binds_low_ports() -> Outcome {
    let kinds = [libc::SOCK_STREAM, libc::SOCK_DGRAM];
    first_harm([1u16, 80, 111, 443, 700, 1023].iter().flat_map(|port| {
        kinds.map(|kind| {
            let Ok(fd) = socket(libc::AF_INET, kind, 0) else { return refused("no socket") };
            let mut address = [0u8; 16];
            address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            address[2..4].copy_from_slice(&port.to_be_bytes());
            address[4..8].copy_from_slice(&[127, 0, 0, 1]);
            harm_if_ok(sys::call(libc::SYS_bind, [fd.as_raw_fd() as usize, at(&address), 16]), format!("bound to port {port}"))
        })
    }))
}

/// Socket options that only an administrator may set: routing marks, buffers beyond the limit, repair mode.
pub(super) fn forces_socket_options() -> Outcome {
    const TCP_REPAIR: c_int = 19;
    let options = [
        (libc::SOL_SOCKET, libc::SO_MARK),
        (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE),
        (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE),
        (libc::SOL_SOCKET, libc::SO_DEBUG),
        (libc::IPPROTO_TCP, TCP_REPAIR),
        (libc::IPPROTO_IP, libc::IP_TRANSPARENT),
    ];
    any_of(options, |(level, option)| {
        let Ok(fd) = socket(libc::AF_INET, libc::SOCK_STREAM, 0) else { return refused("no socket") };
        let words = [fd.as_raw_fd() as usize, level as usize, option as usize, at(&1i32), 4];
        harm_if_ok(sys::call(libc::SYS_setsockopt, words), format!("socket option {level}/{option}"))
    })
}

/// Credentials of another process or user, sent along a socket: what asks "who are you" would believe them.
pub(super) fn forges_credentials() -> Outcome {
    let Ok((ours, _theirs)) = UnixStream::pair() else { return refused("no socket pair") };
    let own = [sys::pid() as u32, sys::uid(), sys::gid()];
    let other = if own[1] == 0 { 1000 } else { 0 };
    any_of([[1, own[1], own[2]], [own[0], other, own[2]], [own[0], own[1], other]], |[pid, uid, gid]| {
        let payload = [at(c"x"), 1];
        let mut control = [0u32; 8];
        control[0] = 28;
        control[2] = libc::SOL_SOCKET as u32;
        control[3] = libc::SCM_CREDENTIALS as u32;
        control[4..7].copy_from_slice(&[pid, uid, gid]);
        let message = [0, 0, at(&payload), 1, at(&control), 32, 0];
        match sys::call(libc::SYS_sendmsg, [ours.as_raw_fd() as usize, at(&message), 0]) {
            Ok(_) => succeeded(format!("sent as process {pid}, user {uid}, group {gid}")),
            Err(errno) => refused(errno.to_string()),
        }
    })
}
