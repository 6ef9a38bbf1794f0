//! The seccomp filters: which system calls a client may make. Takes the client's role and the kernel's Landlock
//! support, and returns a BPF program, which the process installs on itself.
//!
//! With empty capability sets most of these calls would fail anyway. The filter covers the calls that are dangerous
//! without any capability (kernel attack surface) and those that could gain capabilities (user namespaces), and it
//! forwards mount and umount2 to the broker.

use libc::*;
use rustix::io::Errno;
use shorefast_sys::seccomp::{Rule, Verdict, When};

use crate::spec::Capabilities;

/// How the host's abstract unix sockets are kept out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbstractSockets {
    /// Landlock confines them; sockets with a path inside the sandbox work.
    Scoped,
    /// No unix sockets except connected pairs: a datagram socket could send to any name.
    Denied,
}

/// The newest system call that was reviewed for this table (open_tree_attr, Linux 6.15; file_getattr and file_setattr,
/// 6.17). Newer ones give ENOSYS until they have been reviewed.
const NEWEST: c_long = 469;

/// Not in libc's tables for every architecture; the numbers are the same on all.
const SYS_OPEN_TREE_ATTR: c_long = 467;
const SYS_STATMOUNT: c_long = 457;
const SYS_LISTMOUNT: c_long = 458;
const SYS_FCHMODAT2: c_long = 452;

const NEW_NAMESPACES: u32 =
    (CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) as u32 | CLONE_NEWTIME;
const CLONE_NEWTIME: u32 = 0x80;

/// Forwarded to the broker.
const BROKERED: &[c_long] = &[SYS_mount, SYS_umount2];

/// ENOSYS, so that programs use an older call that we can handle:
/// * the new mount API: util-linux 2.39 falls back to mount(2);
/// * clone3: its flags are in memory, which a filter cannot read; glibc falls back to clone;
/// * openat2: the mode of the file that it creates is in memory, too; callers fall back to openat;
/// * statmount and listmount, which only read what mountinfo shows as well;
/// * keys: the session keyring is the caller's, not the client's. Without keys, mount.ceph passes its key to mount(2);
/// * rseq, which glibc registers with hardly any use for it. Once registered, the kernel writes to a thread's memory
///   each time it is scheduled; a daemon without it saves more than half of what the filter adds to its latency.
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

/// EPERM: not needed by any mount client.
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

/// No client may create a set-uid or set-gid file: what it writes to a host directory (its source, a container's own
/// files) is not on a nosuid mount for other processes. Pass-through clients forward their callers' requests, which get
/// EPERM then.
const SET_ID: u32 = S_ISUID | S_ISGID;

/// The calls that set a file's mode, and the index of the argument that contains it.
const MODES: &[(c_long, u8)] = &[(SYS_fchmod, 1), (SYS_fchmodat, 2), (SYS_FCHMODAT2, 2), (SYS_mkdirat, 2), (SYS_mknodat, 2)];
#[cfg(target_arch = "x86_64")]
const MODES_HERE: &[(c_long, u8)] = &[(SYS_chmod, 1), (SYS_creat, 1), (SYS_mkdir, 1), (SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: &[(c_long, u8)] = &[];

/// The same for calls that use the mode only if the flags, in the argument before it, request creation. Otherwise the
/// register is not initialised.
const OPENS: &[(c_long, u8)] = &[(SYS_openat, 3), (SYS_mq_open, 2)];
#[cfg(target_arch = "x86_64")]
const OPENS_HERE: &[(c_long, u8)] = &[(SYS_open, 2)];
#[cfg(not(target_arch = "x86_64"))]
const OPENS_HERE: &[(c_long, u8)] = &[];

/// O_TMPFILE without the bit of O_DIRECTORY that is part of it.
const CREATES: u32 = (O_CREAT | O_TMPFILE & !O_DIRECTORY) as u32;

/// Internet, unix and netlink (getaddrinfo asks the kernel for addresses). Every other family is a kernel module that
/// was not reviewed for this, and that the kernel loads on request of any process.
const FAMILIES: &[u32] = &[AF_UNIX as u32, AF_INET as u32, AF_INET6 as u32, AF_NETLINK as u32];

/// Stream, datagram, raw (used for netlink) and seqpacket. DCCP has its own socket type, which loads the module even
/// when the protocol is not named.
const TYPES: &[u32] = &[SOCK_STREAM as u32, SOCK_DGRAM as u32, SOCK_RAW as u32, SOCK_SEQPACKET as u32];

/// The types whose pairs stay connected. (For unix sockets the kernel treats SOCK_RAW as SOCK_DGRAM.)
const CONNECTED_TYPES: &[u32] = &[SOCK_STREAM as u32, SOCK_SEQPACKET as u32];

/// The kernel's SOCK_TYPE_MASK. SOCK_NONBLOCK and SOCK_CLOEXEC are above it.
const TYPE_MASK: u32 = 0xf;

/// For the internet families, besides the default: ICMP echo, TCP, UDP, UDP-Lite and multipath TCP. Others, such as
/// SCTP and L2TP, would load modules.
const PROTOCOLS: &[u32] = &[1, 6, 17, 58, 136, 262];

pub fn program(sockets: AbstractSockets, capabilities: Capabilities) -> Vec<sock_filter> {
    let mut rules = rules(sockets);
    if capabilities == Capabilities::Pretended {
        rules.push(Rule { number: SYS_capset, when: When::Always, verdict: Verdict::Done });
    }
    shorefast_sys::seccomp::compile(&rules, NEWEST)
}

/// For services beside mounts. While one starts, the broker binds its sockets, also to ports that the service has no
/// right to, and creates its unix sockets in an empty network namespace, so that they cannot reach the host's abstract
/// ones. After the start the listener is closed, and both calls fail with ENOSYS.
pub fn service_program() -> Vec<sock_filter> {
    let heard = [
        // Except netlink addresses, which getifaddrs binds all the time. They are recognised by their length. The only
        // other addresses of that length are paths of a unix socket, which is in an empty network namespace here.
        Rule { number: SYS_bind, when: When::NotIn { argument: 2, values: &[size_of::<sockaddr_nl>() as u32] }, verdict: Verdict::Notify },
        Rule { number: SYS_socket, when: When::Equals { argument: 0, value: AF_UNIX as u32 }, verdict: Verdict::Notify },
    ];
    let rules: Vec<_> = heard.into_iter().chain(rules(AbstractSockets::Denied)).collect();
    shorefast_sys::seccomp::compile(&rules, NEWEST)
}

/// For processes that answer upcalls. They open the kernel's pipes with known flags (nfs-utils: read-write and
/// non-blocking); such an open is forwarded to a process that has permission. They accept no connections, and need no
/// unix sockets.
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
        // A listener of its own would let a client answer for other processes.
        some(SYS_seccomp, When::AnyBit { argument: 1, mask: SECCOMP_FILTER_FLAG_NEW_LISTENER as u32 }, Errno::BUSY),
        // The client has no groups to drop. A daemon that drops them anyway would treat an error as fatal.
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

/// An allow-list for socket(2) and socketpair(2).
fn socket_rules(sockets: AbstractSockets) -> Vec<Rule> {
    let of = |number| move |when, errno| Rule { number, when, verdict: Verdict::Refuse(errno) };
    let (one, pair) = (of(SYS_socket), of(SYS_socketpair));
    let is = |argument, value: c_int| When::Equals { argument, value: value as u32 };
    let mut rules = vec![
        one(When::NotIn { argument: 0, values: FAMILIES }, Errno::AFNOSUPPORT),
        one(When::MaskedNotIn { argument: 1, mask: TYPE_MASK, values: TYPES }, Errno::SOCKTNOSUPPORT),
        // Protocol 0: the family's default; for netlink, routing.
        Rule { number: SYS_socket, when: is(2, 0), verdict: Verdict::Allow },
        one(is(0, AF_NETLINK), Errno::PROTONOSUPPORT),
        one(When::NotIn { argument: 2, values: PROTOCOLS }, Errno::PROTONOSUPPORT),
        // No other family supports pairs, but the kernel would load its module before it says so.
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

    /// The verdict of the first rule that applies.
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
        // Without creation, the mode's register may hold anything.
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
