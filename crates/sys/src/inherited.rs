//! Resets the attributes that a process inherits through fork and execve: CPU and I/O priority, OOM score, and resource
//! limits. Takes limits; the calling process changes.

use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit};

/// Resets scheduling policy, nice value, I/O priority and OOM score to their defaults, also for everything that we
/// start from now on. If the caller has a lower priority, raising it may be forbidden; that does no harm, and errors
/// are ignored.
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
    // Written only if necessary: on a write the kernel walks every process of the host, for those that share our memory.
    if rustix::io::read(&file, &mut score).is_ok_and(|length| score[..length] != *b"0\n") {
        let _ = rustix::io::pwrite(&file, b"0", 0);
    }
}

/// The limits that every sandbox starts with, independently of its caller's: a shell's `ulimit`, a service's settings,
/// kubelet's. Where the kernel refuses to raise one (without CAP_SYS_RESOURCE), the caller's limit stays.
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
        // No way back to a higher priority.
        (Resource::Nice, Some(0), Some(0)),
        (Resource::Rtprio, Some(0), Some(0)),
        // Not 0: with a piped core pattern the kernel ignores that and runs the handler all the same. 1 is the value
        // that it treats as no core dump.
        (Resource::Core, Some(1), Some(1)),
    ];
    for (resource, current, maximum) in fixed {
        set_limit(resource, current, maximum);
    }
    // Some programs allocate or loop over every possible descriptor number.
    let files = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).clamp(1024, 65_536);
    set_limit(Resource::Nofile, Some(files), Some(524_288));
}

/// `None`: no limit. If the kernel refuses, sets the nearest value that it permits.
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
