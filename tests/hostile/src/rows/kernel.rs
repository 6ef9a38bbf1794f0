//! The kernel itself: modules, time, programs loaded into it, and calls that have been its weak spots.
//!
//! Calls that would really hurt are made with arguments that cannot work; `harm_unless_forbidden` says why that is enough.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use crate::outcome::{Outcome, any_of, first_harm, harm_if_ok, harm_unless_forbidden, refused, succeeded};
use crate::sandbox::{SCRATCH, c_path};
use crate::sys::{self, Errno, at, at_mut, negative};

const HERE: usize = negative(libc::AT_FDCWD);

pub(super) fn loads_programs() -> Outcome {
    const BPF_MAP_CREATE: usize = 0;
    const BPF_PROG_LOAD: usize = 5;
    // An array of one 4-byte value.
    let map = [2u32, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // "return 0" as a socket filter.
    let code = [0x0000_00b7u64, 0x0000_0095];
    let mut program = [0u64; 16];
    program[0] = 1 | 2 << 32;
    program[1] = at(&code) as u64;
    program[2] = at(c"GPL") as u64;
    first_harm([
        harm_if_ok(sys::call(libc::SYS_bpf, [BPF_MAP_CREATE, at(&map), size_of_val(&map)]), "a bpf map"),
        harm_if_ok(sys::call(libc::SYS_bpf, [BPF_PROG_LOAD, at(&program), size_of_val(&program)]), "a bpf program"),
    ])
}

pub(super) fn sets_up_io_uring() -> Outcome {
    let mut parameters = [0u32; 30];
    harm_if_ok(sys::call(libc::SYS_io_uring_setup, [4, at_mut(&mut parameters)]), "an io_uring")
}

/// A C library may have done that for this thread already: any answer but that the call is missing says that it could.
pub(super) fn registers_restartable_sequences() -> Outcome {
    const SIGNATURE: usize = 0x5305_3053;
    #[repr(align(32))]
    struct Area {
        _the_kernels: [u8; 32],
    }
    // It would write to it for as long as the thread lives.
    let area = Box::leak(Box::new(Area { _the_kernels: [0; 32] }));
    match sys::call(libc::SYS_rseq, [at_mut(area), size_of::<Area>(), 0, SIGNATURE]) {
        Err(errno @ Errno(libc::ENOSYS)) => refused(errno.to_string()),
        _ => succeeded("restartable sequences, or had them already"),
    }
}

/// Counting one's own clock is the least that perf offers.
pub(super) fn opens_perf() -> Outcome {
    let mut attributes = [0u64; 17];
    const SOFTWARE: u64 = 1;
    const SIZE: u64 = 64;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    attributes[0] = SOFTWARE | SIZE << 32;
    any_of([EXCLUDE_KERNEL, 0], |exclude| {
        let mut attributes = attributes;
        attributes[5] = exclude;
        harm_if_ok(sys::call(libc::SYS_perf_event_open, [at(&attributes), 0, usize::MAX, usize::MAX, 0]), "a perf event")
    })
}

pub(super) fn handles_page_faults() -> Outcome {
    const USER_MODE_ONLY: usize = 1;
    any_of([USER_MODE_ONLY, 0], |flags| {
        harm_if_ok(
            sys::fd_call(libc::SYS_userfaultfd, [flags]),
            "a userfaultfd, with which the broker's reads of our memory could be held up",
        )
    })
}

pub(super) fn loads_modules() -> Outcome {
    let file = c_path(Path::new(SCRATCH).join("hostile.ko"));
    let _ = fs::write(Path::new(SCRATCH).join("hostile.ko"), "not a module");
    let fd = sys::open(&file, libc::O_RDONLY).expect("it was just written");
    let image = [0u8; 64];
    first_harm([
        harm_unless_forbidden(sys::call(libc::SYS_init_module, [at(&image), 64, at(c"")]), "init_module"),
        harm_unless_forbidden(sys::call(libc::SYS_finit_module, [fd.as_raw_fd() as usize, at(c""), 0]), "finit_module"),
    ])
}

pub(super) fn removes_modules() -> Outcome {
    harm_unless_forbidden(sys::call(libc::SYS_delete_module, [at(c"hostile_no_such_module"), libc::O_NONBLOCK as usize]), "delete_module")
}

/// A socket family or a filesystem that is not there makes the kernel ask for a module by name.
pub(super) fn makes_the_kernel_load_modules() -> Outcome {
    let before = fs::read_to_string("/proc/modules").unwrap_or_default();
    for family in 0..46 {
        let _ = sys::fd_call(libc::SYS_socket, [family, libc::SOCK_DGRAM as usize, 0]);
    }
    for fstype in [c"minix", c"hfsplus", c"ntfs3", c"gfs2", c"ceph"] {
        let _ = crate::sandbox::mount(c"none", c"/", fstype, 0, c"");
    }
    let after = fs::read_to_string("/proc/modules").unwrap_or_default();
    let new = after.lines().find(|line| !before.contains(line.split(' ').next().unwrap_or_default()));
    match new {
        Some(line) => succeeded(format!("the kernel loaded {line}")),
        None => refused("no new module"),
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) fn loads_another_kernel() -> Outcome {
    let nothing = negative(-1);
    first_harm([
        harm_unless_forbidden(sys::call(libc::SYS_kexec_load, [0, 17, at(&[0usize; 4]), 0]), "kexec_load"),
        harm_unless_forbidden(sys::call(libc::SYS_kexec_file_load, [nothing, nothing, 0, 0, usize::MAX]), "kexec_file_load"),
    ])
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn loads_another_kernel() -> Outcome {
    harm_unless_forbidden(sys::call(libc::SYS_kexec_load, [0, 17, at(&[0usize; 4]), 0]), "kexec_load")
}

/// With a wrong magic number: a permitted caller gets EINVAL.
pub(super) fn reboots() -> Outcome {
    harm_unless_forbidden(sys::call(libc::SYS_reboot, [0xdead, 0xbeef, 0, 0]), "reboot")
}

pub(super) fn swaps() -> Outcome {
    first_harm([
        harm_unless_forbidden(sys::call(libc::SYS_swapon, [at(c"/hostile/no/such/file"), 0]), "swapon"),
        harm_unless_forbidden(sys::call(libc::SYS_swapoff, [at(c"/hostile/no/such/file")]), "swapoff"),
    ])
}

pub(super) fn accounts() -> Outcome {
    harm_unless_forbidden(sys::call(libc::SYS_acct, [at(c"/hostile/no/such/file")]), "acct")
}

/// Quotas on whatever disk is in sight.
pub(super) fn sets_quotas() -> Outcome {
    const QUOTA_ON: usize = 0x80_0002 << 8;
    any_of([c"/dev/vda", c"/dev/sda", c"/dev/loop0"], |disk| {
        harm_if_ok(sys::call(libc::SYS_quotactl, [QUOTA_ON, at(disk), 0, at(c"/quota")]), format!("quotas on {}", disk.to_string_lossy()))
    })
}

/// The time that it is anyway.
pub(super) fn sets_the_clock() -> Outcome {
    let mut now = [0i64; 2];
    let realtime = libc::CLOCK_REALTIME as usize;
    let _ = sys::call(libc::SYS_clock_gettime, [realtime, at_mut(&mut now)]);
    first_harm([
        harm_if_ok(sys::call(libc::SYS_clock_settime, [realtime, at(&now)]), "clock_settime"),
        harm_if_ok(sys::call(libc::SYS_settimeofday, [at(&[now[0], now[1] / 1000]), 0]), "settimeofday"),
    ])
}

/// The tick that it has anyway.
pub(super) fn tunes_the_clock() -> Outcome {
    const SET_TICK: u32 = 0x4000;
    // struct timex is 208 bytes; its first field is the mode, the eleventh word the tick.
    let mut timex = [0u64; 26];
    let _ = sys::call(libc::SYS_adjtimex, [at_mut(&mut timex)]);
    timex[0] = u64::from(SET_TICK);
    first_harm([
        harm_if_ok(sys::call(libc::SYS_adjtimex, [at_mut(&mut timex)]), "adjtimex"),
        harm_if_ok(sys::call(libc::SYS_clock_adjtime, [libc::CLOCK_REALTIME as usize, at_mut(&mut timex)]), "clock_adjtime"),
    ])
}

/// A timer that wakes the machine from sleep.
pub(super) fn sets_a_wake_alarm() -> Outcome {
    let (event, mut timer) = (0usize, 0i32);
    let answer = sys::call(libc::SYS_timer_create, [libc::CLOCK_REALTIME_ALARM as usize, event, at_mut(&mut timer)]);
    harm_if_ok(answer, "a wake alarm")
}

pub(super) fn renames_the_host() -> Outcome {
    first_harm([
        harm_if_ok(sys::call(libc::SYS_sethostname, [at(c"hostile"), 7]), "sethostname"),
        harm_if_ok(sys::call(libc::SYS_setdomainname, [at(c"hostile"), 7]), "setdomainname"),
    ])
}

#[cfg(target_arch = "x86_64")]
pub(super) fn reaches_ports() -> Outcome {
    first_harm([
        harm_if_ok(sys::call(libc::SYS_iopl, [3]), "iopl 3"),
        harm_if_ok(sys::call(libc::SYS_ioperm, [0x80, 1, 1]), "ioperm on port 0x80"),
    ])
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn reaches_ports() -> Outcome {
    refused("no ports on this architecture")
}

/// The kernel's log holds addresses and other people's secrets; opening it clears nothing.
pub(super) fn reads_the_kernel_log() -> Outcome {
    const READ_ALL: usize = 3;
    const SIZE_BUFFER: usize = 10;
    let mut buffer = vec![0u8; 4096];
    first_harm([
        harm_if_ok(sys::call(libc::SYS_syslog, [READ_ALL, at_mut(buffer.as_mut_slice()), buffer.len()]), "the kernel's log"),
        harm_if_ok(sys::call(libc::SYS_syslog, [SIZE_BUFFER, 0, 0]), "the size of the kernel's log"),
        harm_if_ok(sys::open(c"/dev/kmsg", libc::O_RDONLY | libc::O_NONBLOCK), "/dev/kmsg for reading"),
        harm_if_ok(sys::open(c"/dev/kmsg", libc::O_WRONLY), "/dev/kmsg for writing"),
        harm_if_ok(sys::open(c"/proc/kmsg", libc::O_RDONLY | libc::O_NONBLOCK), "/proc/kmsg"),
    ])
}

/// Where the kernel is in memory; zeros are what the unprivileged see.
pub(super) fn finds_kernel_addresses() -> Outcome {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let known = symbols.lines().filter_map(|line| line.split(' ').next()).any(|address| address.bytes().any(|digit| digit != b'0'));
    if known {
        return succeeded("addresses in /proc/kallsyms");
    }
    harm_if_ok(sys::open(c"/proc/kcore", libc::O_RDONLY), "/proc/kcore opened")
}

pub(super) fn watches_everything() -> Outcome {
    const CONTENT: usize = 4;
    const PRE_CONTENT: usize = 8;
    any_of([CONTENT, PRE_CONTENT], |class| {
        harm_if_ok(sys::fd_call(libc::SYS_fanotify_init, [class, 0]), "a fanotify group that can hold up other processes' opens")
    })
}

/// A file handle names a file without a path: with it one leaves a chroot or a bind mount.
pub(super) fn opens_by_handle() -> Outcome {
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        data: [u8; 128],
    }
    let mut outcomes = Vec::new();
    for place in [c"/", c"/tmp", c"/usr", c"/dev", c"/etc"] {
        let mut handle = Handle { bytes: 128, kind: 0, data: [0; 128] };
        let mut mount_id = 0i32;
        let named = sys::call(libc::SYS_name_to_handle_at, [HERE, at(place), at_mut(&mut handle), at_mut(&mut mount_id), 0]);
        let Ok(root) = sys::open(place, libc::O_RDONLY | libc::O_DIRECTORY) else { continue };
        if named.is_err() {
            // Inode 2, generation 0: the root of most disk filesystems.
            handle = Handle { bytes: 8, kind: 1, data: [0; 128] };
            handle.data[0] = 2;
        }
        let words = [root.as_raw_fd() as usize, at(&handle), libc::O_RDONLY as usize];
        outcomes.push(harm_if_ok(sys::fd_call(libc::SYS_open_by_handle_at, words), format!("{} by handle", place.to_string_lossy())));
    }
    first_harm(outcomes)
}

/// `KEYCTL_*` commands on keyrings that are not ours alone.
pub(super) fn reads_keyrings() -> Outcome {
    const GET_KEYRING_ID: usize = 0;
    const SPECIAL: [(i32, &str); 6] = [(-1, "thread"), (-2, "process"), (-3, "session"), (-4, "user"), (-5, "user session"), (-6, "group")];
    any_of(SPECIAL, |(ring, name)| {
        let create = 1;
        harm_if_ok(sys::call(libc::SYS_keyctl, [GET_KEYRING_ID, negative(ring), create]), format!("the {name} keyring"))
    })
}

pub(super) fn adds_keys() -> Outcome {
    const SESSION: i32 = -3;
    const PROCESS: i32 = -2;
    any_of([SESSION, PROCESS], |ring| {
        let words = [at(c"user"), at(c"hostile"), at(c"secret"), 6, negative(ring)];
        harm_if_ok(sys::call(libc::SYS_add_key, words), "a key was added")
    })
}

/// A key that is not there makes the kernel run /sbin/request-key on the host, as root.
pub(super) fn requests_keys() -> Outcome {
    let words = [at(c"user"), at(c"hostile:no-such-key"), at(c"callout"), negative(-2)];
    match sys::call(libc::SYS_request_key, words) {
        Err(errno @ Errno(libc::ENOSYS | libc::EPERM)) => refused(errno.to_string()),
        answer => succeeded(format!("the kernel looked for the key: {answer:?}")),
    }
}

pub(super) fn joins_keyrings() -> Outcome {
    const JOIN_SESSION: usize = 1;
    const DESCRIBE: usize = 6;
    let mut text = [0u8; 256];
    first_harm([
        harm_if_ok(sys::call(libc::SYS_keyctl, [DESCRIBE, negative(-3), at_mut(&mut text), 256]), "the session keyring described"),
        harm_if_ok(sys::call(libc::SYS_keyctl, [JOIN_SESSION, at(c"hostile")]), "a named session keyring joined"),
    ])
}

/// Hangs up the terminal that the caller of `shorefast` sits at.
pub(super) fn hangs_up() -> Outcome {
    harm_if_ok(sys::call(libc::SYS_vhangup, []), "the terminal was hung up")
}
