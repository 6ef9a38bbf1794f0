//! Which system calls a client may make.
//!
//! With empty capability sets most of these would fail anyway. The filter is there for the calls
//! that are dangerous without any capability (attack surface of the kernel), for those that could
//! make new capabilities (user namespaces), and to hand mount and umount2 to the broker.

use libc::*;
use rustix::io::Errno;
use shorefast_sys::seccomp::{Rule, Verdict, When};

use crate::spec::Capabilities;

/// How abstract unix sockets of the host are kept out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbstractSockets {
    /// Landlock confines them; path sockets inside the sandbox work.
    Scoped,
    /// No unix sockets at all but pairs of streams: one of datagrams could be sent to any name.
    Denied,
}

/// The newest call that was considered for this table (open_tree_attr, Linux 6.15; file_getattr and
/// file_setattr, 6.17). Newer ones do not exist for a client until somebody has looked at them.
const NEWEST: c_long = 469;

/// Not in libc's tables for every architecture; the numbers are the same on all.
const SYS_OPEN_TREE_ATTR: c_long = 467;
const SYS_STATMOUNT: c_long = 457;
const SYS_LISTMOUNT: c_long = 458;
const SYS_FCHMODAT2: c_long = 452;

const NEW_NAMESPACES: u32 =
    (CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) as u32 | CLONE_NEWTIME;
const CLONE_NEWTIME: u32 = 0x80;

/// To the broker.
const BROKERED: &[c_long] = &[SYS_mount, SYS_umount2];

/// Missing, so that programs take the older way that we know: the new mount API (util-linux 2.39
/// falls back to mount(2)), clone3 (its flags are in memory, where a filter cannot look; glibc
/// falls back to clone), openat2 (so is the mode of the file that it makes; callers fall back to openat), two that only read what mountinfo shows too, and keys: the caller's
/// session keyring is not the client's (without any, mount.ceph hands its key to mount(2)). And
/// restartable sequences, which glibc registers for nearly nothing: the kernel then writes to every
/// thread each time it gets a processor. A daemon without them answers sooner by more than half of
/// what the filter costs its calls.
const MISSING: &[c_long] = &[
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_move_mount,
    SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    SYS_mount_setattr,
    SYS_STATMOUNT,
    SYS_LISTMOUNT,
    SYS_clone3,
    SYS_openat2,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_rseq,
];

/// Refused: what no mount client needs.
const REFUSED: &[c_long] = &[
    // Other namespaces, other roots.
    SYS_setns,
    SYS_pivot_root,
    SYS_chroot,
    // Other processes.
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_kcmp,
    SYS_pidfd_getfd,
    SYS_move_pages,
    SYS_migrate_pages,
    // Large kernel interfaces.
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_fanotify_init,
    SYS_lookup_dcookie,
    SYS_open_by_handle_at,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_vhangup,
    SYS_nfsservctl,
    // The machine.
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_syslog,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_sethostname,
    SYS_setdomainname,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[c_long] = &[SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_uselib, SYS_ustat, SYS_sysfs];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[c_long] = &[];

/// No client makes a set-uid or set-gid file: what it writes to a directory of the host (its source, a container's own files) is not on
/// a nosuid mount for others. Pass-through clients hand on what their callers ask for, who receive EPERM then.
const SET_ID: u32 = S_ISUID | S_ISGID;

/// The calls that give a file its mode, and which argument that is.
const MODES: &[(c_long, u8)] = &[(SYS_fchmod, 1), (SYS_fchmodat, 2), (SYS_FCHMODAT2, 2), (SYS_mkdirat, 2), (SYS_mknodat, 2)];
#[cfg(target_arch = "x86_64")]
const MODES_HERE: &[(c_long, u8)] = &[(SYS_chmod, 1), (SYS_creat, 1), (SYS_mkdir, 1), (SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: &[(c_long, u8)] = &[];

/// Those that do so only if the flags before the mode say that they create; otherwise it is whatever is in the register.
const OPENS: &[(c_long, u8)] = &[(SYS_openat, 3), (SYS_mq_open, 2)];
#[cfg(target_arch = "x86_64")]
const OPENS_HERE: &[(c_long, u8)] = &[(SYS_open, 2)];
#[cfg(not(target_arch = "x86_64"))]
const OPENS_HERE: &[(c_long, u8)] = &[];

/// O_TMPFILE without the bit of O_DIRECTORY that is part of it.
const CREATES: u32 = (O_CREAT | O_TMPFILE & !O_DIRECTORY) as u32;

/// Internet, unix and netlink (getaddrinfo asks the kernel for addresses). Everything else is a
/// kernel module that nobody audited for this, loaded for whoever just asks.
const FAMILIES: &[u32] = &[AF_UNIX as u32, AF_INET as u32, AF_INET6 as u32, AF_NETLINK as u32];

/// Streams, datagrams, raw (which is what netlink is called with) and packets in sequence. DCCP has a type of its own, by which it is
/// loaded without being named as a protocol.
const TYPES: &[u32] = &[SOCK_STREAM as u32, SOCK_DGRAM as u32, SOCK_RAW as u32, SOCK_SEQPACKET as u32];

/// Of the types, those whose pairs stay connected to each other. (The kernel takes a raw one for datagrams.)
const CONNECTED_TYPES: &[u32] = &[SOCK_STREAM as u32, SOCK_SEQPACKET as u32];

/// The kernel's SOCK_TYPE_MASK; above it are SOCK_NONBLOCK and SOCK_CLOEXEC.
const TYPE_MASK: u32 = 0xf;

/// Of the internet families, beside the default: ICMP echo, TCP, UDP, UDP-Lite and multipath TCP. SCTP, L2TP and the like would be loaded.
const PROTOCOLS: &[u32] = &[1, 6, 17, 58, 136, 262];

pub fn program(sockets: AbstractSockets, capabilities: Capabilities) -> Vec<sock_filter> {
    let mut rules = rules(sockets);
    if capabilities == Capabilities::Pretended {
        rules.push(Rule { number: SYS_capset, when: When::Always, verdict: Verdict::Done });
    }
    shorefast_sys::seccomp::compile(&rules, NEWEST)
}

/// For what runs beside mounts. While it starts, somebody binds sockets for it, also to ports that it could not have itself, and
/// makes its unix sockets, of a kind that cannot reach the host's abstract ones. Later both are missing: nobody listens then.
pub fn service_program() -> Vec<sock_filter> {
    let heard = [
        // Not those of netlink, by which getifaddrs asks all the time: no other address has that length but paths of a unix socket,
        // which is of an empty network here.
        Rule { number: SYS_bind, when: When::NotIn { argument: 2, values: &[size_of::<sockaddr_nl>() as u32] }, verdict: Verdict::Notify },
        Rule { number: SYS_socket, when: When::Equals { argument: 0, value: AF_UNIX as u32 }, verdict: Verdict::Notify },
    ];
    let rules: Vec<_> = heard.into_iter().chain(rules(AbstractSockets::Denied)).collect();
    shorefast_sys::seccomp::compile(&rules, NEWEST)
}

/// For what answers the kernel. How it opens the pipes for that is known (nfs-utils: for reading and writing, without waiting); such an
/// open goes to somebody who may. It listens nowhere, and has no use for unix sockets.
pub fn answerer_program() -> Vec<sock_filter> {
    let pipe =
        |flags: c_int| Rule { number: SYS_openat, when: When::Equals { argument: 2, value: flags as u32 }, verdict: Verdict::Notify };
    let heard = [pipe(O_RDWR | O_NONBLOCK), pipe(O_RDWR | O_NONBLOCK | O_CLOEXEC)];
    let rules: Vec<_> = heard.into_iter().chain(rules(AbstractSockets::Denied)).collect();
    shorefast_sys::seccomp::compile(&rules, NEWEST)
}

fn rules(sockets: AbstractSockets) -> Vec<Rule> {
    let always = |numbers: &[c_long], verdict: Verdict| -> Vec<Rule> {
        numbers.iter().map(|number| Rule { number: *number, when: When::Always, verdict }).collect()
    };
    let some = |number: c_long, when: When, errno: Errno| Rule { number, when, verdict: Verdict::Refuse(errno) };
    let mut rules = always(BROKERED, Verdict::Notify);
    rules.extend(always(MISSING, Verdict::Refuse(Errno::NOSYS)));
    rules.extend(always(REFUSED, Verdict::Refuse(Errno::PERM)));
    rules.extend(always(REFUSED_HERE, Verdict::Refuse(Errno::PERM)));
    rules.extend([
        some(SYS_clone, When::AnyBit { argument: 0, mask: NEW_NAMESPACES }, Errno::PERM),
        some(SYS_unshare, When::AnyBit { argument: 0, mask: NEW_NAMESPACES }, Errno::PERM),
        // A listener of its own would let a client answer for others.
        some(SYS_seccomp, When::AnyBit { argument: 1, mask: SECCOMP_FILTER_FLAG_NEW_LISTENER as u32 }, Errno::BUSY),
        // It has no groups to drop; a daemon that drops them all the same takes an error for a reason to end.
        Rule { number: SYS_setgroups, when: When::Equals { argument: 0, value: 0 }, verdict: Verdict::Done },
        // Likewise: the bounding set is empty.
        Rule { number: SYS_prctl, when: When::Equals { argument: 0, value: PR_CAPBSET_DROP as u32 }, verdict: Verdict::Done },
        some(SYS_ioctl, When::Equals { argument: 1, value: TIOCSTI as u32 }, Errno::PERM),
        some(SYS_ioctl, When::Equals { argument: 1, value: TIOCLINUX as u32 }, Errno::PERM),
        some(SYS_personality, When::AnyBit { argument: 0, mask: !(ADDR_NO_RANDOMIZE as u32) & 0x7fff_ffff }, Errno::PERM),
    ]);
    rules.extend(set_id_rules());
    rules.extend(socket_rules(sockets));
    rules
}

fn set_id_rules() -> impl Iterator<Item = Rule> {
    let refuse = |number, argument| {
        let when = When::AnyBit { argument, mask: SET_ID };
        Rule { number, when, verdict: Verdict::Refuse(Errno::PERM) }
    };
    let opens = OPENS.iter().chain(OPENS_HERE).flat_map(move |(number, mode)| {
        let opens_only = When::NoBit { argument: mode - 1, mask: CREATES };
        [Rule { number: *number, when: opens_only, verdict: Verdict::Allow }, refuse(*number, *mode)]
    });
    MODES.iter().chain(MODES_HERE).map(move |(number, mode)| refuse(*number, *mode)).chain(opens)
}

/// An allow-list for both calls that make sockets.
fn socket_rules(sockets: AbstractSockets) -> Vec<Rule> {
    let of = |number| move |when, errno| Rule { number, when, verdict: Verdict::Refuse(errno) };
    let (one, pair) = (of(SYS_socket), of(SYS_socketpair));
    let is = |argument, value: c_int| When::Equals { argument, value: value as u32 };
    let mut rules = vec![
        one(When::NotIn { argument: 0, values: FAMILIES }, Errno::AFNOSUPPORT),
        one(When::MaskedNotIn { argument: 1, mask: TYPE_MASK, values: TYPES }, Errno::SOCKTNOSUPPORT),
        // The default of the family; of netlink, routing.
        Rule { number: SYS_socket, when: is(2, 0), verdict: Verdict::Allow },
        one(is(0, AF_NETLINK), Errno::PROTONOSUPPORT),
        one(When::NotIn { argument: 2, values: PROTOCOLS }, Errno::PROTONOSUPPORT),
        // No other family has pairs, but the kernel would load it first.
        pair(When::NotIn { argument: 0, values: &[AF_UNIX as u32] }, Errno::AFNOSUPPORT),
    ];
    if sockets == AbstractSockets::Denied {
        rules.insert(0, one(is(0, AF_UNIX), Errno::ACCESS));
        rules.push(pair(When::MaskedNotIn { argument: 1, mask: TYPE_MASK, values: CONNECTED_TYPES }, Errno::ACCESS));
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the first rule that applies makes of a call.
    fn judged(rules: &[Rule], number: c_long, arguments: [u32; 4]) -> Verdict {
        let value = |argument: u8| arguments[usize::from(argument)];
        let applies = |when: &When| match *when {
            When::Always => true,
            When::AnyBit { argument, mask } => value(argument) & mask != 0,
            When::NoBit { argument, mask } => value(argument) & mask == 0,
            When::Equals { argument, value: wanted } => value(argument) == wanted,
            When::NotIn { argument, values } => !values.contains(&value(argument)),
            When::MaskedNotIn { argument, mask, values } => !values.contains(&(value(argument) & mask)),
        };
        rules.iter().find(|rule| rule.number == number && applies(&rule.when)).map_or(Verdict::Allow, |rule| rule.verdict)
    }

    #[test]
    fn every_program_fits_into_its_jumps() {
        for sockets in [AbstractSockets::Scoped, AbstractSockets::Denied] {
            for capabilities in [Capabilities::None, Capabilities::Pretended] {
                assert!(program(sockets, capabilities).len() < 256);
            }
        }
        assert!(service_program().len() < 256 && answerer_program().len() < 256);
    }

    #[test]
    fn no_call_makes_a_set_id_file() {
        let rules = rules(AbstractSockets::Scoped);
        let tmpfile = O_TMPFILE as u32 | O_RDWR as u32;
        for bit in [S_ISUID, S_ISGID] {
            let mode = 0o755 | bit;
            let calls = [
                (SYS_fchmod, [3, mode, 0, 0]),
                (SYS_fchmodat, [3, 1, mode, 0]),
                (SYS_FCHMODAT2, [3, 1, mode, 0]),
                (SYS_mkdirat, [3, 1, mode, 0]),
                (SYS_mknodat, [3, 1, mode | S_IFREG, 0]),
                (SYS_openat, [3, 1, O_CREAT as u32, mode]),
                (SYS_openat, [3, 1, tmpfile, mode]),
            ];
            for (number, arguments) in calls {
                assert_eq!(judged(&rules, number, arguments), Verdict::Refuse(Errno::PERM), "{number} {arguments:?}");
                let plain = arguments.map(|value| if value & bit != 0 { value & !bit } else { value });
                assert_eq!(judged(&rules, number, plain), Verdict::Allow, "{number} {plain:?}");
            }
        }
        assert_eq!(judged(&rules, SYS_openat2, [0; 4]), Verdict::Refuse(Errno::NOSYS));
        // What is in the register of a mode that nobody asks for.
        assert_eq!(judged(&rules, SYS_openat, [3, 1, O_RDONLY as u32, !0]), Verdict::Allow);
        assert_eq!(judged(&rules, SYS_openat, [3, 1, O_DIRECTORY as u32, !0]), Verdict::Allow);
    }

    #[test]
    fn sockets_are_an_allow_list() {
        const NONBLOCK: c_int = SOCK_NONBLOCK | SOCK_CLOEXEC;
        let refuse = Verdict::Refuse;
        let rows = [
            ("a stream", SYS_socket, [AF_INET, SOCK_STREAM | NONBLOCK, 0], Verdict::Allow, Verdict::Allow),
            ("TCP", SYS_socket, [AF_INET6, SOCK_STREAM, 6], Verdict::Allow, Verdict::Allow),
            ("UDP", SYS_socket, [AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 17], Verdict::Allow, Verdict::Allow),
            ("routing", SYS_socket, [AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0], Verdict::Allow, Verdict::Allow),
            ("udev", SYS_socket, [AF_NETLINK, SOCK_RAW, 15], refuse(Errno::PROTONOSUPPORT), refuse(Errno::PROTONOSUPPORT)),
            (
                "sock_diag's neighbour 6",
                SYS_socket,
                [AF_NETLINK, SOCK_RAW, 6],
                refuse(Errno::PROTONOSUPPORT),
                refuse(Errno::PROTONOSUPPORT),
            ),
            ("SCTP", SYS_socket, [AF_INET, SOCK_STREAM, 132], refuse(Errno::PROTONOSUPPORT), refuse(Errno::PROTONOSUPPORT)),
            ("DCCP by its type", SYS_socket, [AF_INET, 6, 0], refuse(Errno::SOCKTNOSUPPORT), refuse(Errno::SOCKTNOSUPPORT)),
            ("vsock", SYS_socket, [AF_VSOCK, SOCK_STREAM, 0], refuse(Errno::AFNOSUPPORT), refuse(Errno::AFNOSUPPORT)),
            ("unix", SYS_socket, [AF_UNIX, SOCK_STREAM, 0], Verdict::Allow, refuse(Errno::ACCESS)),
            ("a pair", SYS_socketpair, [AF_UNIX, SOCK_STREAM | NONBLOCK, 0], Verdict::Allow, Verdict::Allow),
            ("a pair in sequence", SYS_socketpair, [AF_UNIX, SOCK_SEQPACKET, 0], Verdict::Allow, Verdict::Allow),
            ("datagrams", SYS_socketpair, [AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0], Verdict::Allow, refuse(Errno::ACCESS)),
            ("datagrams in disguise", SYS_socketpair, [AF_UNIX, SOCK_RAW, 0], Verdict::Allow, refuse(Errno::ACCESS)),
            ("a pair of TIPC", SYS_socketpair, [AF_TIPC, SOCK_STREAM, 0], refuse(Errno::AFNOSUPPORT), refuse(Errno::AFNOSUPPORT)),
            ("a pair of inet", SYS_socketpair, [AF_INET, SOCK_STREAM, 132], refuse(Errno::AFNOSUPPORT), refuse(Errno::AFNOSUPPORT)),
        ];
        for (name, number, [family, kind, protocol], scoped, denied) in rows {
            let arguments = [family, kind, protocol, 0].map(|value| value as u32);
            assert_eq!(judged(&rules(AbstractSockets::Scoped), number, arguments), scoped, "{name}");
            assert_eq!(judged(&rules(AbstractSockets::Denied), number, arguments), denied, "{name}, without Landlock");
        }
    }
}
