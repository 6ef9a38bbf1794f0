//! What a process has from whoever started it and keeps through fork and exec, unless somebody resets it: its place in the queue for
//! processors and disks, its place among the kernel's victims when memory runs out, and its limits.

use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit};

/// As if nobody special had started us: the usual policy, nice value 0, no priority for the disk, no protection from the kernel's
/// choice when memory runs out. What we start from here on is like that, too. A caller that is worse off than that may be one whom the
/// kernel lets nobody raise; that does no harm, and is left.
pub fn reset() {
    reset_scheduling();
    reset_io_priority();
    reset_oom_score();
}

/// The kernel's `struct sched_attr`, in its first version.
#[repr(C)]
#[derive(Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

fn reset_scheduling() {
    const SIZE: u32 = size_of::<SchedulingAttributes>() as u32;
    let mut now = SchedulingAttributes::default();
    // SAFETY: the kernel writes at most SIZE bytes to `now`, which outlives the call. 0 is the calling thread.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, SIZE, 0) };
    if got == 0 && now.policy == libc::SCHED_OTHER as u32 && now.nice == 0 {
        return;
    }
    let usual = SchedulingAttributes { size: SIZE, policy: libc::SCHED_OTHER as u32, ..SchedulingAttributes::default() };
    // SAFETY: the kernel reads SIZE bytes of `usual`.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const usual, 0) };
}

fn reset_io_priority() {
    const WHO_PROCESS: libc::c_int = 1;
    const NONE: libc::c_int = 0;
    // SAFETY: three numbers; 0 is the calling thread.
    if unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) } != NONE.into() {
        // SAFETY: the same.
        unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, NONE) };
    }
}

fn reset_oom_score() {
    let Ok(file) = rustix::fs::open("/proc/self/oom_score_adj", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) else { return };
    let mut score = [0; 8];
    // Not written without need: the kernel would look at every process of the host, for others that share our memory.
    if rustix::io::read(&file, &mut score).is_ok_and(|length| score[..length] != *b"0\n") {
        let _ = rustix::io::pwrite(&file, b"0", 0);
    }
}

/// The limits that every sandbox starts with, whatever its caller's are: a shell's `ulimit`, a service's settings, kubelet's. Where
/// the kernel does not let us raise one (CAP_SYS_RESOURCE), what the caller may have is what the sandbox may have.
pub fn reset_limits() {
    const MIB: u64 = 1 << 20;
    let fixed = [
        (Resource::Cpu, None, None),
        (Resource::Fsize, None, None),
        (Resource::Data, None, None),
        (Resource::Stack, Some(8 * MIB), None),
        (Resource::Rss, None, None),
        (Resource::As, None, None),
        (Resource::Locks, None, None),
        (Resource::Rttime, None, None),
        (Resource::Memlock, Some(8 * MIB), Some(8 * MIB)),
        (Resource::Msgqueue, Some(819_200), Some(819_200)),
        (Resource::Sigpending, Some(16_384), Some(16_384)),
        // No way back to a better place in the queue.
        (Resource::Nice, Some(0), Some(0)),
        (Resource::Rtprio, Some(0), Some(0)),
        // Not 0: the kernel runs a core pattern's program all the same. 1 is what it takes for no.
        (Resource::Core, Some(1), Some(1)),
    ];
    for (resource, current, maximum) in fixed {
        set_limit(resource, current, maximum);
    }
    // Some programs take memory or time for every number that could be a descriptor's.
    let files = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).clamp(1024, 65_536);
    set_limit(Resource::Nofile, Some(files), Some(524_288));
}

/// `None`: no limit. As near to that as the kernel lets us.
pub fn set_limit(resource: Resource, current: Option<u64>, maximum: Option<u64>) {
    if rustix::process::setrlimit(resource, Rlimit { current, maximum }).is_ok() {
        return;
    }
    let allowed = rustix::process::getrlimit(resource).maximum;
    let lower = |wanted: Option<u64>| match (wanted, allowed) {
        (Some(wanted), Some(allowed)) => Some(wanted.min(allowed)),
        (wanted, allowed) => wanted.or(allowed),
    };
    let _ = rustix::process::setrlimit(resource, Rlimit { current: lower(current), maximum: lower(maximum) });
}
