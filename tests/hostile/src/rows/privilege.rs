//! Ways back to privilege: what the client starts with, and what it tries to become.

use std::ffi::CStr;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::process::{Command, ExitCode};

use libc::c_int;

use crate::outcome::{Outcome, any_of, first_harm, harm_if_ok, refused, succeeded};
use crate::sandbox::{Sandbox, c_path, descriptors, status_field};
use crate::sys::{self, Errno, at};

const SETS: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

/// Capability sets of this process that are not empty.
fn capabilities() -> Vec<String> {
    let set = |name: &str| Some(format!("{name} {}", status_field("self", name)?));
    SETS.iter().filter_map(|name| set(name)).filter(|text| text.bytes().skip(6).any(|byte| !b" 0".contains(&byte))).collect()
}

pub(super) fn has_capabilities() -> Outcome {
    match capabilities().as_slice() {
        [] => refused("all five sets are empty"),
        sets => succeeded(sets.join(", ")),
    }
}

/// Uid 0 without a user namespace is root of the host, with or without capabilities.
pub(super) fn is_host_root() -> Outcome {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let line: Vec<u64> = map.lines().next().unwrap_or_default().split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let on_the_host = match line.as_slice() {
        [inside, outside, _] => u64::from(sys::uid()) + outside - inside,
        _ => 0,
    };
    if on_the_host < 1000 { succeeded(format!("uid {on_the_host} of the host")) } else { refused(format!("uid {on_the_host} of the host")) }
}

pub(super) fn keeps_groups() -> Outcome {
    let groups = status_field("self", "Groups").unwrap_or_default();
    let own = sys::gid().to_string();
    match groups.split_whitespace().find(|group| *group != own) {
        Some(group) => succeeded(format!("supplementary group {group}")),
        None => refused("no supplementary groups"),
    }
}

pub(super) fn becomes_another_user() -> Outcome {
    let others = [0usize, 1, 1000, 65533, 2_000_000_001].into_iter().filter(|uid| *uid != sys::uid() as usize);
    first_harm(others.flat_map(|uid| {
        [
            harm_if_ok(sys::call(libc::SYS_setresuid, [uid, uid, uid]), format!("uid {uid}")),
            harm_if_ok(sys::call(libc::SYS_setuid, [uid]), format!("uid {uid}")),
            harm_if_ok(sys::call(libc::SYS_setreuid, [usize::MAX, uid]), format!("effective uid {uid}")),
        ]
    }))
}

pub(super) fn becomes_another_group() -> Outcome {
    let others = [0usize, 1, 6, 42, 1000].into_iter().filter(|gid| *gid != sys::gid() as usize);
    first_harm(others.flat_map(|gid| {
        let list = [gid as u32];
        [
            harm_if_ok(sys::call(libc::SYS_setresgid, [gid, gid, gid]), format!("gid {gid}")),
            harm_if_ok(sys::call(libc::SYS_setgroups, [1, at(&list)]), format!("supplementary group {gid}")),
        ]
    }))
}

/// File access as another user: setfsuid answers with the old id, whether or not it obeyed.
pub(super) fn borrows_a_file_identity() -> Outcome {
    let other = if sys::uid() == 0 { 1000 } else { 0 };
    let _ = sys::call(libc::SYS_setfsuid, [other]);
    match sys::call(libc::SYS_setfsuid, [usize::MAX]) {
        Ok(now) if now == other => succeeded(format!("file access as uid {other}")),
        answer => refused(format!("file access still as {answer:?}")),
    }
}

/// Process 1 holds what its client must not have. Who may change users becomes its user first.
pub(super) fn inspects_init_as_its_user() -> Outcome {
    let id = |field: &str| status_field("1", field).and_then(|ids| ids.split_whitespace().next()?.parse::<usize>().ok());
    let (Some(uid), Some(gid)) = (id("Uid"), id("Gid")) else { return refused("process 1 is not in sight") };
    let group = sys::call(libc::SYS_setresgid, [gid, gid, gid]);
    let user = sys::call(libc::SYS_setresuid, [uid, uid, uid]);
    let as_whom = format!("as user {uid}: {user:?}, group {gid}: {group:?}");
    let opens = |name: &str| match fs::File::open(format!("/proc/1/{name}")) {
        Ok(_) => succeeded(format!("{name} of process 1 opened {as_whom}")),
        Err(error) => refused(format!("{name}: {error}, {as_whom}")),
    };
    let lists = || match fs::read_dir("/proc/1/fd") {
        Ok(_) => succeeded(format!("the descriptors of process 1 listed {as_whom}")),
        Err(error) => refused(format!("fd: {error}, {as_whom}")),
    };
    first_harm(["mem", "environ", "syscall"].map(opens).into_iter().chain([lists()]))
}

/// One capability in the permitted, effective and inheritable sets.
fn take_capability(capability: usize) -> sys::Answer {
    let header = [0x2008_0522u32, 0];
    let mut data = [0u32; 6];
    let half = if capability < 32 { 0 } else { 3 };
    data[half..half + 3].fill(1 << (capability % 32));
    sys::call(libc::SYS_capset, [at(&header), at(&data)])
}

pub(super) fn raises_capabilities() -> Outcome {
    any_of(0..41, |capability| harm_if_ok(take_capability(capability), format!("capability {capability}")))
}

fn prctl(option: c_int, second: usize, third: usize) -> sys::Answer {
    sys::call(libc::SYS_prctl, [option as usize, second, third, 0, 0])
}

pub(super) fn raises_ambient_capabilities() -> Outcome {
    any_of(0..41, |capability| {
        let taken = take_capability(capability);
        let raised = prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE as usize, capability);
        harm_if_ok(raised, format!("ambient capability {capability}, taken before: {taken:?}"))
    })
}

pub(super) fn changes_secure_bits() -> Outcome {
    let all = 0xff;
    harm_if_ok(prctl(libc::PR_SET_SECUREBITS, all, 0), "secure bits changed")
}

pub(super) fn clears_no_new_privileges() -> Outcome {
    let answer = prctl(libc::PR_SET_NO_NEW_PRIVS, 0, 0);
    match prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0) {
        Ok(1) => refused(format!("still set after {answer:?}")),
        now => succeeded(format!("not set: {now:?}")),
    }
}

pub(super) fn leaves_seccomp() -> Outcome {
    let answers = [prctl(libc::PR_SET_SECCOMP, 0, 0), sys::call(libc::SYS_seccomp, [libc::SECCOMP_SET_MODE_STRICT as usize, 1, 0])];
    match status_field("self", "Seccomp").as_deref() {
        Some("2") => refused(format!("still filtered after {answers:?}")),
        mode => succeeded(format!("seccomp mode {mode:?}")),
    }
}

/// One instruction: everything is allowed, or everything goes to our own listener.
fn install_filter(flags: u64, verdict: u32) -> sys::Answer {
    let filter = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: verdict }];
    let program = libc::sock_fprog { len: 1, filter: filter.as_ptr().cast_mut() };
    sys::call(libc::SYS_seccomp, [libc::SECCOMP_SET_MODE_FILTER as usize, flags as usize, at(&program)])
}

/// A listener of our own would answer our mount calls before the broker hears of them, and could let the kernel continue them.
pub(super) fn installs_a_listener() -> Outcome {
    let _ = prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0);
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    harm_if_ok(install_filter(flags, libc::SECCOMP_RET_ALLOW), "a listener of our own")
}

/// A later filter that allows everything must not weaken the first: the last word is the strictest.
pub(super) fn allows_itself_everything() -> Outcome {
    let _ = prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0);
    let installed = install_filter(0, libc::SECCOMP_RET_ALLOW);
    match sys::call(libc::SYS_unshare, [libc::CLONE_NEWUSER as usize]) {
        Err(errno) => refused(format!("filter {installed:?}, then unshare: {errno}")),
        Ok(_) => succeeded("a new user namespace after a filter of our own"),
    }
}

/// A descriptor of the broker's end would let us answer our own calls. Numbers that are not in /proc are tried too.
pub(super) fn answers_its_own_calls() -> Outcome {
    const NOTIF_ID_VALID: usize = 0x4008_2102;
    const NOTIF_ID_VALID_OLD: usize = 0x8008_2102;
    const NOTIF_SET_FLAGS: usize = 0x4008_2104;
    let requests = [NOTIF_ID_VALID, NOTIF_ID_VALID_OLD, NOTIF_SET_FLAGS];
    first_harm((0..1024usize).flat_map(|fd| {
        requests.map(|request| match sys::call(libc::SYS_ioctl, [fd, request, at(&0u64)]) {
            Ok(_) | Err(Errno(libc::ENOENT)) => succeeded(format!("descriptor {fd} is a seccomp listener")),
            Err(errno) => refused(errno.to_string()),
        })
    }))
}

/// What `privileges` reports as an exit status: 0 when the new program is no more than the old one was.
const GAINED: u8 = 77;

pub(crate) fn report() -> ExitCode {
    let before = std::env::var("HOSTILE_UID").unwrap_or_default();
    let gained = before != sys::uid().to_string() || !capabilities().is_empty();
    if gained { ExitCode::from(GAINED) } else { ExitCode::SUCCESS }
}

/// Copies of this program in the image that are set-user-id root or have file capabilities; the driver puts them there.
pub(super) fn executes(program: &str) -> Outcome {
    let status = Command::new(program).arg("privileges").env("HOSTILE_UID", sys::uid().to_string()).status();
    match status.map(|status| status.code()) {
        Ok(Some(code)) if code == i32::from(GAINED) => succeeded(format!("{program} ran with more than we had")),
        Ok(code) => refused(format!("{program} ran with nothing more, exit {code:?}")),
        Err(error) => refused(format!("{program}: {error}")),
    }
}

pub(super) fn keeps_descriptors(sandbox: &Sandbox) -> Outcome {
    match sandbox.inherited.as_slice() {
        [] => refused("nothing above 2 was open"),
        open => succeeded(format!("open at the start: {}", open.join(", "))),
    }
}

/// The three standard descriptors, if they are files of the host that we could open anew with other rights, or a terminal.
pub(super) fn reopens_standard_streams() -> Outcome {
    any_of(0..3, |fd| {
        let to = descriptors().into_iter().find(|(number, _)| *number == fd).map(|(_, to)| to).unwrap_or_default();
        let kind = fs::metadata(format!("/proc/self/fd/{fd}")).map(|meta| meta.file_type());
        let plain = kind.is_ok_and(|kind| kind.is_file() || kind.is_dir());
        let mut settings = [0u8; 64];
        let terminal = sys::call(libc::SYS_ioctl, [fd as usize, libc::TCGETS as usize, sys::at_mut(&mut settings)]).is_ok();
        let opened = sys::open(&c_path(format!("/proc/self/fd/{fd}")), libc::O_RDWR);
        match opened {
            _ if terminal => succeeded(format!("descriptor {fd} is the terminal {to}")),
            Ok(again) if plain => succeeded(format!("{to} opened for reading and writing as {}", again.as_raw_fd())),
            _ => refused(format!("descriptor {fd} is {to}")),
        }
    })
}

pub(super) fn keeps_environment(name: &str) -> Outcome {
    match std::env::vars_os().find(|(variable, _)| variable == name) {
        Some((_, value)) => succeeded(format!("{name}={}", value.display())),
        None => refused("not in our environment"),
    }
}

pub(super) fn keeps_directory(sandbox: &Sandbox) -> Outcome {
    let cwd = &sandbox.cwd;
    let outside = cwd.to_string_lossy().starts_with("(unreachable)");
    if outside { succeeded(format!("began in {}", cwd.display())) } else { refused(format!("began in {}", cwd.display())) }
}

pub(super) fn raises_limits() -> Outcome {
    let names =
        [libc::RLIMIT_NPROC, libc::RLIMIT_NOFILE, libc::RLIMIT_MEMLOCK, libc::RLIMIT_RTPRIO, libc::RLIMIT_NICE, libc::RLIMIT_SIGPENDING];
    any_of(names.iter(), |name| {
        let mut now = [0u64; 2];
        let _ = sys::call(libc::SYS_prlimit64, [0, *name as usize, 0, sys::at_mut(&mut now)]);
        if now[1] == u64::MAX {
            return refused("no limit to raise");
        }
        let more = [now[1] + 1, now[1] + 1];
        harm_if_ok(sys::call(libc::SYS_prlimit64, [0, *name as usize, at(&more), 0]), format!("limit {name} raised"))
    })
}

pub(super) fn raises_priority() -> Outcome {
    let nice = sys::call(libc::SYS_setpriority, [libc::PRIO_PROCESS as usize, 0, sys::negative(-20)]);
    let realtime_class = 1usize << 13;
    first_harm([
        harm_if_ok(nice, "nice -20"),
        harm_if_ok(sys::call(libc::SYS_ioprio_set, [1, 0, realtime_class]), "real-time disk priority"),
    ])
}

pub(super) fn becomes_realtime() -> Outcome {
    let priority = 1i32;
    any_of([libc::SCHED_FIFO, libc::SCHED_RR], |policy| {
        harm_if_ok(sys::call(libc::SYS_sched_setscheduler, [0, policy as usize, at(&priority)]), format!("scheduling policy {policy}"))
    })
}

/// Writes to one's own files in /proc that would undo what the sandbox set.
pub(super) fn writes_own(file: &CStr, text: &str) -> Outcome {
    let path = file.to_string_lossy();
    let before = fs::read_to_string(&*path).unwrap_or_default();
    match fs::write(&*path, text) {
        Ok(()) => succeeded(format!("{path}: {} became {text}", before.trim())),
        Err(error) => refused(Errno::from(error).to_string()),
    }
}
