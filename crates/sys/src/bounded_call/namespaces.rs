//! The mount namespaces of all processes, for kernels without a list of them (before 6.12). Nothing in, descriptors out.
//!
//! Opening /proc/PID/ns/mnt of a process that hangs in execve(2) blocks ([`super::processes`]). So a child process
//! ([`crate::bounded_call`]) opens them, one after the other, and when it hangs, another child continues with the next process.

use std::ffi::CString;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::Pid;

use crate::bounded_call::open::{pass_on, receive};
use crate::bounded_call::run::{Descriptors, send};
use crate::error::{Result, call};
use crate::process_scan::{self, ProcessScan};

/// Opening takes longer than this only if the process hangs.
const FOR_ONE: Duration = Duration::from_millis(500);

/// Each namespace once, with its inode. Those of processes that hang are missing, unless another process is in them, too.
pub fn mounts_of_processes(deadline: Instant) -> Result<Vec<(u64, OwnedFd)>> {
    open_each(ProcessScan::start().map(|pid| process_scan::file(pid, "ns/mnt")).collect(), deadline)
}

/// The same for all threads, each of which can be in another namespace.
pub fn mounts_of_threads(deadline: Instant) -> Result<Vec<(u64, OwnedFd)>> {
    let threads = |pid: Pid| std::fs::read_dir(process_scan::directory(pid).join("task")).into_iter().flatten().flatten();
    let paths = ProcessScan::start().flat_map(threads).filter_map(|thread| crate::c_string(thread.path().join("ns/mnt")).ok());
    open_each(paths.collect(), deadline)
}

fn open_each(mut paths: Vec<CString>, deadline: Instant) -> Result<Vec<(u64, OwnedFd)>> {
    let mut found = Vec::<(u64, OwnedFd)>::new();
    while !paths.is_empty() && Instant::now() < deadline {
        let (namespaces, looked_at) = look_at(paths.clone())?;
        for namespace in namespaces {
            let inode = call(|| "fstat(namespace)".into(), rustix::fs::fstat(&namespace))?.st_ino;
            if found.iter().all(|(other, _)| *other != inode) {
                found.push((inode, namespace));
            }
        }
        // Continue after the path at which it hangs.
        paths = paths.split_off((looked_at + 1).min(paths.len()));
    }
    Ok(found)
}

/// The namespaces, and how many paths were opened before the child ended or hung.
fn look_at(paths: Vec<CString>) -> Result<(Vec<OwnedFd>, usize)> {
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = call(|| "socketpair()".into(), pair)?;
    let socket = theirs.as_raw_fd();
    // Leaked, all three: a child that hangs may still use them, and one that ends must not free anything. Nor must it
    // allocate, so there is space for all inodes.
    let progress: &AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    let mut seen = ManuallyDrop::new(Vec::with_capacity(paths.len()));
    let paths = ManuallyDrop::new(paths);
    let ask = move || {
        // SAFETY: the child has this number open in its own table until it ends.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        for path in paths.iter() {
            if let Ok(namespace) = rustix::fs::open(path.as_c_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
                let inode = rustix::fs::fstat(&namespace)?.st_ino;
                if !seen.contains(&inode) {
                    seen.push(inode);
                    pass_on(socket, namespace.as_fd())?;
                }
            }
            progress.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let child = send(Descriptors::Only(&[socket]), ask)?;
    // With our copy closed, the child's exit is end of file.
    drop(theirs);
    let mut namespaces = Vec::new();
    let mut before = 0;
    loop {
        let is_ready = crate::deadline::is_readable(ours.as_fd(), Instant::now() + FOR_ONE);
        let now = progress.load(Ordering::Relaxed);
        match is_ready {
            Ok(true) => match receive(&ours) {
                Ok(namespace) => namespaces.push(namespace),
                // End of file.
                Err(Errno::PROTO) => break,
                Err(errno) => return Err(crate::Error::new("recvmsg(namespace)", errno)),
            },
            Ok(false) if now == before => break,
            _ => {}
        }
        before = now;
    }
    drop(child);
    Ok((namespaces, progress.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_is_among_them_and_none_is_there_twice() {
        let found = mounts_of_processes(Instant::now() + Duration::from_secs(60)).unwrap();
        let ours = rustix::fs::stat("/proc/thread-self/ns/mnt").unwrap().st_ino;
        assert_eq!(found.iter().filter(|(inode, _)| *inode == ours).count(), 1);
    }
}
