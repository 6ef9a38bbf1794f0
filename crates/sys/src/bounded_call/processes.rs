//! Attributes of processes that may hang in execve(2), from /proc. Pids in, answers out.
//!
//! execve closes the close-on-exec descriptors, and maps the new program, under a lock (`exec_update_lock`). Closing a file calls its
//! filesystem: if its server does not answer, the lock stays locked. Every process that then reads attributes that require the right to inspect
//! the process waits for the server, too, root included. Observed on 6.18:
//!
//! | reading these waits | reading these does not |
//! |---|---|
//! | stat, environ, maps, auxv, mem, io, stack, syscall, wchan, personality | status, statm, comm, cgroup, mountinfo, limits, uid_map |
//! | the links exe, cwd, root, ns/*, fd/*, however they are read | the directories fd and task, task/*/children |
//! | pidfd_getfd(2), setns(2) and the ioctls of a pidfd that give namespaces | pidfd_open(2), pidfd_send_signal(2), poll(2) and fstat(2) of a pidfd |
//!
//! cmdline does not wait for this lock, but it reads memory of the process's choice, which can be a mapped file. So
//! the left column of a process that may be another user's is read only here or by another bounded call.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, StatxFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdGetfdFlags};

use crate::bounded_call::each::{Answer, each};
use crate::bounded_call::open::{pass_on, receive};
use crate::bounded_call::run::{Bounded, run};
use crate::error::Error;
use crate::process::{self, Start};
use crate::process_scan;

/// When processes started. [`Answer::None`]: it is gone, or a zombie.
pub fn starts_of(pids: &[Pid], deadline: Instant) -> Vec<Answer<Start>> {
    const IS_EXITING: u64 = 1 << 62;
    let paths = pids.iter().map(|pid| process_scan::file(*pid, "stat")).collect();
    let starts = each(paths, &[], deadline, |path| {
        let stat = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut buffer = [0; process::LONGEST_STAT];
        let length = rustix::io::read(&stat, &mut buffer)?;
        let start = Start::read(&buffer[..length]).ok_or(Errno::SRCH)?;
        Ok(start.at | if start.is_exiting { IS_EXITING } else { 0 })
    });
    starts.into_iter().map(|start| start.map(|bits| Start { at: bits & !IS_EXITING, is_exiting: bits & IS_EXITING != 0 })).collect()
}

/// How many bytes processes have read and written.
pub fn moved_by(pids: &[Pid], deadline: Instant) -> Vec<Answer<u64>> {
    /// Seven short lines.
    const LONGEST: usize = 512;
    let paths = pids.iter().map(|pid| process_scan::file(*pid, "io")).collect();
    each(paths, &[], deadline, |path| {
        let io = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut buffer = [0; LONGEST];
        let length = rustix::io::read(&io, &mut buffer)?;
        Ok(bytes_in(&buffer[..length]))
    })
}

fn bytes_in(io: &[u8]) -> u64 {
    let counts = io.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"rchar: ").or_else(|| line.strip_prefix(b"wchar: ")));
    counts.filter_map(|count| str::from_utf8(count).ok()?.parse::<u64>().ok()).fold(0, u64::wrapping_add)
}

/// The inodes of the namespaces of a type that processes are in. `kind`: as in /proc/PID/ns.
pub fn namespaces_of(pids: &[Pid], kind: &str, deadline: Instant) -> Vec<Answer<u64>> {
    let name = format!("ns/{kind}");
    let paths = pids.iter().map(|pid| process_scan::file(*pid, &name)).collect();
    each(paths, &[], deadline, |path| inode(path).map(|(_, inode)| inode))
}

/// Whether any of these files of /proc, all of which are links to files, leads to this one: a device and an inode.
pub fn leads_any(links: Vec<std::ffi::CString>, file: (u64, u64), deadline: Instant) -> bool {
    each(links, &[], deadline, move |path| Ok(u64::from(inode(path)? == file))).contains(&Answer::Known(1))
}

/// STATX_DONT_SYNC: contacts no server.
fn inode(path: &CStr) -> rustix::io::Result<(u64, u64)> {
    let stat = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO)?;
    Ok((rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino))
}

/// A copy of the descriptor under which a process has the FUSE device open. It may be another file, because the process may have opened
/// one under that number meanwhile. ENOENT: it has none.
pub fn fuse_device_of(pid: Pid, deadline: Instant) -> Bounded<OwnedFd> {
    let text = move || format!("pidfd_getfd(/dev/fuse of {})", pid.as_raw_nonzero());
    let prepare = || {
        let process = crate::call(text, rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()))?;
        let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        Ok((process, crate::call(|| "socketpair()".into(), pair)?))
    };
    let (process, (ours, theirs)) = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => return Bounded::Failed(error),
    };
    let (held, socket) = (process.as_raw_fd(), theirs.as_raw_fd());
    let descriptors = process_scan::file(pid, "fd");
    let ask = move || {
        // SAFETY: the child has this number open in its own table until it ends.
        let process = unsafe { BorrowedFd::borrow_raw(held) };
        // SAFETY: the same.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        let directory = rustix::fs::open(descriptors.as_c_str(), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut space = [MaybeUninit::uninit(); 1024];
        let mut entries = RawDir::new(&directory, &mut space);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let mut target = [MaybeUninit::uninit(); 128];
            let Ok((target, _)) = rustix::fs::readlinkat_raw(&directory, entry.file_name(), &mut target) else { continue };
            let number = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
            let (true, Some(number)) = (target.ends_with(b"dev/fuse"), number) else { continue };
            if let Ok(taken) = rustix::process::pidfd_getfd(process, number, PidfdGetfdFlags::empty()) {
                return pass_on(socket, taken.as_fd());
            }
        }
        Err(Errno::NOENT)
    };
    run(text, &[held, socket], deadline, ask).map(|()| receive(&ours).map_err(|errno| Error::new(text(), errno)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn bytes_are_those_that_were_read_and_written() {
        assert_eq!(bytes_in(b"rchar: 12\nwchar: 30\nsyscr: 5\nread_bytes: 7\n"), 42);
        assert_eq!(bytes_in(b""), 0);
    }

    fn in_time() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_process_is_as_old_and_where_its_own_proc_says() {
        let own = rustix::process::getpid();
        let nobody = Pid::from_raw(i32::MAX).unwrap();
        let started = starts_of(&[own, nobody], in_time());
        assert_eq!(started, [Answer::Known(Start { at: process::start_of(own).unwrap(), is_exiting: false }), Answer::None]);
        let inode = rustix::fs::stat("/proc/self/ns/pid").unwrap().st_ino;
        assert_eq!(namespaces_of(&[nobody, own], "pid", in_time()), [Answer::None, Answer::Known(inode)]);
    }

    #[test]
    fn a_process_without_the_device_has_none() {
        let found = fuse_device_of(rustix::process::getpid(), in_time());
        assert!(matches!(&found, Bounded::Failed(error) if error.errno() == Errno::NOENT), "{found:?}");
    }

    #[test]
    fn an_open_file_is_found() {
        let file = std::fs::File::open("/proc/version").unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let link = |number: i32| vec![std::ffi::CString::new(format!("/proc/{}/fd/{number}", std::process::id())).unwrap()];
        assert!(leads_any(link(file.as_raw_fd()), (stat.st_dev, stat.st_ino), in_time()));
        assert!(!leads_any(link(-1), (stat.st_dev, stat.st_ino), in_time()));
    }
}
