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
    /// No unix sockets at all but pairs.
    Denied,
}

/// The newest call that was considered for this table (open_tree_attr, Linux 6.15; file_getattr and
/// file_setattr, 6.17). Newer ones do not exist for a client until somebody has looked at them.
const NEWEST: c_long = 469;

/// Not in libc's tables for every architecture; the numbers are the same on all.
const SYS_OPEN_TREE_ATTR: c_long = 467;
const SYS_STATMOUNT: c_long = 457;
const SYS_LISTMOUNT: c_long = 458;

const NEW_NAMESPACES: u32 =
    (CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) as u32 | CLONE_NEWTIME;
const CLONE_NEWTIME: u32 = 0x80;

/// To the broker.
const BROKERED: &[c_long] = &[SYS_mount, SYS_umount2];

/// Missing, so that programs take the older way that we know: the new mount API (util-linux 2.39
/// falls back to mount(2)), clone3 (its flags are in memory, where a filter cannot look; glibc
/// falls back to clone), two that only read what mountinfo shows too, and keys: the caller's
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

/// Internet, unix and netlink (getaddrinfo asks the kernel for addresses). Everything else is a
/// kernel module that nobody audited for this.
const FAMILIES: &[u32] = &[AF_UNIX as u32, AF_INET as u32, AF_INET6 as u32, AF_NETLINK as u32];

/// The default, ICMP echo, TCP, UDP, UDP-Lite and multipath TCP. SCTP, DCCP and the like would be loaded
/// for a client that just asks. (For netlink the number means another thing: 0 is routing.)
const PROTOCOLS: &[u32] = &[0, 1, 6, 17, 58, 136, 262];

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
    if sockets == AbstractSockets::Denied {
        rules.push(some(SYS_socket, When::Equals { argument: 0, value: AF_UNIX as u32 }, Errno::ACCESS));
    }
    rules.push(some(SYS_socket, When::NotIn { argument: 0, values: FAMILIES }, Errno::AFNOSUPPORT));
    rules.push(some(SYS_socket, When::NotIn { argument: 2, values: PROTOCOLS }, Errno::PROTONOSUPPORT));
    rules
}
