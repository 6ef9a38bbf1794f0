//! Other processes: init of the sandbox, our parent, and all others in sight.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use libc::{c_int, pid_t};

use crate::outcome::{Outcome, any_of, first_harm, harm_if_ok, refused, succeeded};
use crate::sandbox::{Sandbox, c_path, processes, status_field};
use crate::sys::{self, Errno, at, at_mut};

/// Init and our parent, as far as they are others than ourselves.
fn elders(sandbox: &Sandbox) -> Vec<pid_t> {
    let mut elders = vec![1, sandbox.parent];
    elders.retain(|pid| *pid > 0 && *pid != sys::pid() && *pid != std::os::unix::process::parent_id() as pid_t);
    elders.dedup();
    elders
}

/// Processes that run as another user than we do.
fn strangers() -> Vec<pid_t> {
    let own = status_field("self", "Uid");
    processes().into_iter().filter(|pid| status_field(&pid.to_string(), "Uid") != own).collect()
}

fn for_elders(sandbox: &Sandbox, attempt: impl Fn(pid_t) -> Outcome) -> Outcome {
    any_of(elders(sandbox), attempt)
}

pub(super) fn traces(sandbox: &Sandbox) -> Outcome {
    for_elders(sandbox, |pid| {
        let answer = sys::call(libc::SYS_ptrace, [libc::PTRACE_SEIZE as usize, pid as usize, 0, 0]);
        harm_if_ok(answer, format!("process {pid} is traced"))
    })
}

/// The tracer turns a harmless call of its own child into mount(2): the filter must see what is really called.
#[cfg(target_arch = "x86_64")]
pub(super) fn rewrites_a_call(sandbox: &Sandbox) -> Outcome {
    let words = [at(c"hostile"), at(c"/usr"), at(c"tmpfs")];
    let child = match sys::fork() {
        Ok(None) => {
            let traced = sys::call(libc::SYS_ptrace, [libc::PTRACE_TRACEME as usize, 0, 0, 0]);
            let _ = sys::kill(sys::pid(), libc::SIGSTOP);
            let answer = sys::call(libc::SYS_getpid, words);
            sys::exit(if traced.is_ok() && answer == Ok(0) { 7 } else { 0 });
        }
        Ok(Some(child)) => child,
        Err(errno) => return refused(errno.to_string()),
    };
    let trace = |request: c_int, data: usize| sys::call(libc::SYS_ptrace, [request as usize, child as usize, 0, data]);
    let mut status = sys::wait(child, libc::WUNTRACED).unwrap_or(0);
    if trace(libc::PTRACE_SETOPTIONS as c_int, libc::PTRACE_O_EXITKILL as usize).is_err() {
        let _ = sys::kill(child, libc::SIGKILL);
        let _ = sys::wait(child, 0);
        return refused("not even a child of ours can be traced");
    }
    while libc::WIFSTOPPED(status) {
        let mut registers = [0u64; 27];
        const CALL_NUMBER: usize = 15;
        const FOURTH: usize = 7;
        const FIFTH: usize = 9;
        if trace(libc::PTRACE_GETREGS as c_int, at_mut(&mut registers)).is_ok() && registers[CALL_NUMBER] == libc::SYS_getpid as u64 {
            registers[CALL_NUMBER] = libc::SYS_mount as u64;
            registers[FOURTH] = 0;
            registers[FIFTH] = 0;
            let _ = trace(libc::PTRACE_SETREGS as c_int, at(&registers));
        }
        let _ = trace(libc::PTRACE_SYSCALL as c_int, 0);
        status = sys::wait(child, 0).unwrap_or(0);
    }
    match sandbox.forbidden_mounts().as_slice() {
        [] if libc::WEXITSTATUS(status) != 7 => refused("the rewritten call was judged too"),
        stray => succeeded(format!("the rewritten call mounted: {}", stray.join(", "))),
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn rewrites_a_call(_: &Sandbox) -> Outcome {
    refused("the row knows the registers of x86_64 only")
}

/// "Bad address" is harm too: then the kernel let us in and only the address was wrong.
fn reaches_memory(answer: sys::Answer, pid: pid_t) -> Outcome {
    match answer {
        Ok(_) | Err(Errno(libc::EFAULT | libc::EIO)) => succeeded(format!("the memory of process {pid}")),
        Err(errno) => refused(errno.to_string()),
    }
}

pub(super) fn reads_memory(sandbox: &Sandbox) -> Outcome {
    any_of([libc::SYS_process_vm_readv, libc::SYS_process_vm_writev], |number| {
        for_elders(sandbox, |pid| {
            let mut buffer = [0u64; 8];
            let local = [at_mut(&mut buffer), 64];
            // Unmapped everywhere, so that nothing is written where writing is possible.
            let remote = [sys::PAGE, 64];
            reaches_memory(sys::call(number, [pid as usize, at(&local), 1, at(&remote), 1, 0]), pid)
        })
    })
}

pub(super) fn opens_memory(sandbox: &Sandbox) -> Outcome {
    for_elders(sandbox, |pid| harm_if_ok(sys::open(&c_path(format!("/proc/{pid}/mem")), libc::O_RDWR), format!("/proc/{pid}/mem opened")))
}

pub(super) fn lists_descriptors(sandbox: &Sandbox) -> Outcome {
    for_elders(sandbox, |pid| match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(entries) => {
            let links: Vec<String> =
                entries.flatten().filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.display().to_string())).collect();
            succeeded(format!("/proc/{pid}/fd: {}", links.join(", ")))
        }
        Err(error) => refused(Errno::from(error).to_string()),
    })
}

pub(super) fn enters_root_of(sandbox: &Sandbox) -> Outcome {
    let own = fs::metadata("/").map(|meta| (meta.dev(), meta.ino())).ok();
    for_elders(sandbox, |pid| {
        any_of(["root", "cwd"], |link| {
            let path = format!("/proc/{pid}/{link}");
            match fs::metadata(&path) {
                Ok(meta) if link == "root" && Some((meta.dev(), meta.ino())) != own => succeeded(format!("{path} is another root")),
                Ok(_) if Path::new(&path).join("etc/shadow").exists() => succeeded(format!("{path}/etc/shadow is in sight")),
                Ok(_) => refused(format!("{path} is the sandbox")),
                Err(error) => refused(Errno::from(error).to_string()),
            }
        })
    })
}

/// Variables that we were not given ourselves.
pub(super) fn reads_environment(_: &Sandbox) -> Outcome {
    let own: Vec<String> = std::env::vars_os().map(|(name, _)| name.display().to_string()).collect();
    any_of(processes().into_iter().filter(|pid| *pid != sys::pid()), |pid| {
        let text = match fs::read(format!("/proc/{pid}/environ")) {
            Ok(text) => text,
            Err(error) => return refused(Errno::from(error).to_string()),
        };
        let text = String::from_utf8_lossy(&text).into_owned();
        let names = text.split('\0').filter_map(|variable| variable.split_once('=')).map(|(name, _)| name);
        match names.into_iter().find(|name| !own.iter().any(|mine| mine == name)) {
            Some(name) => succeeded(format!("/proc/{pid}/environ holds {name}")),
            None => refused(format!("/proc/{pid}/environ holds nothing we do not have")),
        }
    })
}

pub(super) fn takes_descriptors(sandbox: &Sandbox) -> Outcome {
    for_elders(sandbox, |pid| match sys::fd_call(libc::SYS_pidfd_open, [pid as usize, 0]) {
        Err(errno) => refused(format!("pidfd_open: {errno}")),
        Ok(pidfd) => any_of(0..64, |fd| match sys::fd_call(libc::SYS_pidfd_getfd, [pidfd.as_raw_fd() as usize, fd, 0]) {
            Ok(_) => succeeded(format!("descriptor {fd} of process {pid}")),
            Err(Errno(libc::EBADF)) => succeeded(format!("allowed to, but process {pid} has no descriptor {fd}")),
            Err(errno) => refused(errno.to_string()),
        }),
    })
}

pub(super) fn compares(sandbox: &Sandbox) -> Outcome {
    const KCMP_VM: usize = 1;
    for_elders(sandbox, |pid| {
        harm_if_ok(
            sys::call(libc::SYS_kcmp, [sys::pid() as usize, pid as usize, KCMP_VM, 0, 0]),
            format!("kernel pointers of process {pid} compared"),
        )
    })
}

pub(super) fn inspects(sandbox: &Sandbox) -> Outcome {
    for_elders(sandbox, |pid| {
        let (mut head, mut length) = (0usize, 0usize);
        let answer = sys::call(libc::SYS_get_robust_list, [pid as usize, at_mut(&mut head), at_mut(&mut length)]);
        harm_if_ok(answer, format!("an address inside process {pid}"))
    })
}

pub(super) fn moves_pages(sandbox: &Sandbox) -> Outcome {
    for_elders(sandbox, |pid| {
        let nodes = [1u64];
        harm_if_ok(sys::call(libc::SYS_migrate_pages, [pid as usize, 64, at(&nodes), at(&nodes)]), format!("pages of process {pid} moved"))
    })
}

/// Init of a pid namespace is deaf to its children: if it is not, we do not live to tell.
pub(super) fn kills_init(_: &Sandbox) -> Outcome {
    let foreign = status_field("1", "Uid") != status_field("self", "Uid");
    let probe = sys::kill(1, 0);
    if foreign && probe.is_ok() {
        return succeeded("process 1 runs as another user and takes signals from us");
    }
    if status_field("1", "NSpid").is_some_and(|pids| pids.split_whitespace().count() < 2) && foreign {
        return refused(format!("{probe:?}"));
    }
    let answers = [libc::SIGKILL, libc::SIGSTOP, libc::SIGTERM, libc::SIGSEGV].map(|signal| sys::kill(1, signal));
    thread::sleep(Duration::from_millis(300));
    refused(format!("{answers:?}, and process 1 is still there"))
}

/// Signal 0 asks for permission and does nothing.
pub(super) fn signals_strangers(_: &Sandbox) -> Outcome {
    any_of(strangers(), |pid| harm_if_ok(sys::kill(pid, 0), format!("process {pid} takes signals from us")))
}

/// Numbers of processes that are in no list of ours.
pub(super) fn signals_hidden(_: &Sandbox) -> Outcome {
    let known = processes();
    let threads = |pid: &pid_t| fs::metadata(format!("/proc/{pid}")).is_ok();
    let hidden = (2..40_000).filter(|pid| !known.contains(pid));
    first_harm(hidden.filter_map(|pid| {
        // A thread, or a process that was born just now, is in sight after all.
        let answer = sys::kill(pid, 0);
        (answer.is_err() || !threads(&pid)).then(|| harm_if_ok(answer, format!("process {pid}, which /proc does not show, takes signals")))
    }))
}

/// Everything that can be signalled gets SIGTERM, which we ignore ourselves. The driver has a witness on the host.
pub(super) fn signals_everybody(sandbox: &Sandbox) -> Outcome {
    if let outcome @ Outcome::Succeeded(_) = signals_strangers(sandbox) {
        return outcome;
    }
    sys::ignore(libc::SIGTERM);
    let parent = std::os::unix::process::parent_id() as pid_t;
    let stop = sys::kill(parent, 0);
    refused(format!("kill(-1, SIGTERM): {:?}; our own runner: {stop:?}", sys::kill(-1, libc::SIGTERM)))
}

/// In the caller's session /dev/tty is the caller's terminal, with the password that is typed there next. Ours begins with
/// ourselves or with what started us; one that begins outside our pid namespace has the number 0.
pub(super) fn shares_session(sandbox: &Sandbox) -> Outcome {
    let session = sys::call(libc::SYS_getsid, [0]).unwrap_or(0) as pid_t;
    let ours = session == sandbox.parent || status_field(&session.to_string(), "Uid") == status_field("self", "Uid");
    let text = format!("in session {session}");
    if session == 0 || !ours { succeeded(text) } else { refused(text) }
}

/// Limits of a stranger, lowered until it fails.
pub(super) fn limits_strangers(_: &Sandbox) -> Outcome {
    any_of(strangers(), |pid| {
        let mut now = [0u64; 2];
        let answer = sys::call(libc::SYS_prlimit64, [pid as usize, libc::RLIMIT_NOFILE as usize, 0, at_mut(&mut now)]);
        harm_if_ok(answer, format!("limits of process {pid}"))
    })
}
