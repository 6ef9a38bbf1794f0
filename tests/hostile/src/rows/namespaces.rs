//! New namespaces, which would give capabilities over something, and old ones that belong to the host.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;

use libc::c_int;

use crate::outcome::{Outcome, any_of, first_harm, harm_if_ok, refused, succeeded};
use crate::sandbox::c_path;
use crate::sys::{self, at, at_mut};

/// Not in every libc; the low bits are the exit signal of clone, so this one is for unshare, setns and clone3 only.
const CLONE_NEWTIME: c_int = 0x80;

const FLAGS: [(c_int, &str); 8] = [
    (libc::CLONE_NEWUSER, "user"),
    (libc::CLONE_NEWNS, "mnt"),
    (libc::CLONE_NEWPID, "pid"),
    (libc::CLONE_NEWNET, "net"),
    (libc::CLONE_NEWIPC, "ipc"),
    (libc::CLONE_NEWUTS, "uts"),
    (libc::CLONE_NEWCGROUP, "cgroup"),
    (CLONE_NEWTIME, "time"),
];

pub(super) fn unshare(name: &str) -> Outcome {
    let wanted = FLAGS.iter().filter(|(_, flag)| *flag == name);
    any_of(wanted, |(flag, name)| harm_if_ok(sys::call(libc::SYS_unshare, [*flag as usize]), format!("a new {name} namespace")))
}

/// All at once with a user namespace, which is how one gets them without capabilities.
pub(super) fn unshare_together() -> Outcome {
    any_of(FLAGS.iter(), |(flag, name)| {
        let flags = (*flag | libc::CLONE_NEWUSER) as usize;
        harm_if_ok(sys::call(libc::SYS_unshare, [flags]), format!("new user and {name} namespaces"))
    })
}

/// The child, if there is one, ends at once and its birth is the harm.
fn born(answer: sys::Answer, what: String) -> Outcome {
    if answer == Ok(0) {
        sys::exit(0);
    }
    if let Ok(child) = answer {
        let _ = sys::wait(child as c_int, 0);
    }
    harm_if_ok(answer, what)
}

pub(super) fn clone() -> Outcome {
    let flags = FLAGS.iter().filter(|(flag, _)| *flag != CLONE_NEWTIME);
    first_harm(flags.flat_map(|(flag, name)| {
        [0, libc::CLONE_NEWUSER].map(|with| {
            let words = [(flag | with | libc::SIGCHLD) as usize, 0, 0, 0, 0];
            born(sys::call(libc::SYS_clone, words), format!("a child in a new {name} namespace"))
        })
    }))
}

pub(super) fn clone3() -> Outcome {
    first_harm(FLAGS.iter().flat_map(|(flag, name)| {
        [0, libc::CLONE_NEWUSER].map(|with| {
            let mut arguments = [0u64; 11];
            arguments[0] = (flag | with) as u64;
            arguments[4] = libc::SIGCHLD as u64;
            let answer = sys::call(libc::SYS_clone3, [at(&arguments), size_of_val(&arguments)]);
            born(answer, format!("a child in a new {name} namespace"))
        })
    }))
}

/// A child that begins in a cgroup of its choice, and so outside its limits.
pub(super) fn clone_into_cgroup() -> Outcome {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    let groups = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    any_of(groups, |group| {
        let Ok(fd) = sys::open(&c_path(group), libc::O_PATH | libc::O_DIRECTORY) else { return refused("no cgroup filesystem in sight") };
        let mut arguments = [0u64; 11];
        arguments[0] = CLONE_INTO_CGROUP;
        arguments[4] = libc::SIGCHLD as u64;
        arguments[10] = fd.as_raw_fd() as u64;
        let answer = sys::call(libc::SYS_clone3, [at(&arguments), size_of_val(&arguments)]);
        born(answer, format!("a child in {group}"))
    })
}

/// Into the namespaces of `pid`, by their files.
pub(super) fn enter_by_file(pid: &str) -> Outcome {
    any_of(FLAGS.iter(), |(flag, name)| match sys::open(&c_path(format!("/proc/{pid}/ns/{name}")), libc::O_RDONLY) {
        Ok(fd) => harm_if_ok(
            sys::call(libc::SYS_setns, [fd.as_raw_fd() as usize, *flag as usize]),
            format!("entered the {name} namespace of {pid}"),
        ),
        Err(errno) => refused(format!("open: {errno}")),
    })
}

/// Into the namespaces of init and of our parent, by pidfd.
pub(super) fn enter_by_pidfd(pids: &[i32]) -> Outcome {
    first_harm(pids.iter().flat_map(|pid| {
        FLAGS.map(|(flag, name)| match sys::fd_call(libc::SYS_pidfd_open, [*pid as usize, 0]) {
            Ok(fd) => harm_if_ok(
                sys::call(libc::SYS_setns, [fd.as_raw_fd() as usize, flag as usize]),
                format!("entered the {name} namespace of process {pid}"),
            ),
            Err(errno) => refused(format!("pidfd_open: {errno}")),
        })
    }))
}

/// From our own namespaces to their owner and parent. What we are in already is no gain.
pub(super) fn climb() -> Outcome {
    const NS_GET_USERNS: usize = 0xb701;
    const NS_GET_PARENT: usize = 0xb702;
    let own = FLAGS.map(|(_, name)| fs::metadata(format!("/proc/self/ns/{name}")).map(|meta| meta.ino()).ok());
    first_harm(["user", "pid", "mnt", "net", "ipc", "uts"].iter().flat_map(|name| {
        [NS_GET_USERNS, NS_GET_PARENT].map(|request| {
            let Ok(fd) = sys::open(&c_path(format!("/proc/self/ns/{name}")), libc::O_RDONLY) else { return refused("no namespace files") };
            match sys::fd_call(libc::SYS_ioctl, [fd.as_raw_fd() as usize, request, 0]).map(File::from) {
                Ok(found) if own.contains(&found.metadata().map(|meta| meta.ino()).ok()) => refused("only our own"),
                Ok(_) => succeeded(format!("a descriptor of the owner or parent of our {name} namespace")),
                Err(errno) => refused(errno.to_string()),
            }
        })
    }))
}

/// From our mount namespace to the ones before and after it.
pub(super) fn walk_mount_namespaces() -> Outcome {
    const NS_MNT_GET_NEXT: usize = 0x8010_b70b;
    const NS_MNT_GET_PREV: usize = 0x8010_b70c;
    any_of([NS_MNT_GET_NEXT, NS_MNT_GET_PREV], |request| {
        let Ok(fd) = sys::open(c"/proc/self/ns/mnt", libc::O_RDONLY) else { return refused("no namespace files") };
        let mut info = [0u64; 2];
        let answer = sys::fd_call(libc::SYS_ioctl, [fd.as_raw_fd() as usize, request, at_mut(&mut info)]);
        harm_if_ok(answer, "a descriptor of another mount namespace")
    })
}

/// Newer kernels give namespaces file handles; the host's have well-known numbers.
pub(super) fn open_by_handle() -> Outcome {
    const FD_NSFS_ROOT: i32 = -10003;
    const FILEID_NSFS: i32 = 0xf1;
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        id: u64,
        namespace_type: u32,
        inode: u32,
    }
    let hosts = [
        (8, libc::CLONE_NEWNS, 0xefff_fff8u32),
        (3, libc::CLONE_NEWUSER, 0xefff_fffd),
        (4, libc::CLONE_NEWPID, 0xefff_fffc),
        (2, libc::CLONE_NEWUTS, 0xefff_fffe),
    ];
    any_of(hosts, |(id, flag, inode)| {
        let handle = Handle { bytes: 16, kind: FILEID_NSFS, id, namespace_type: flag as u32, inode };
        let flags = libc::O_RDONLY as usize;
        match sys::fd_call(libc::SYS_open_by_handle_at, [sys::negative(FD_NSFS_ROOT), at(&handle), flags]) {
            Ok(_) => succeeded(format!("a descriptor of the host's namespace {inode:#x}")),
            Err(errno) => refused(errno.to_string()),
        }
    })
}
