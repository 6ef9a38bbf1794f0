//! In: a service's open call for a pipe by which the kernel asks for RPC credentials: `gssd` in directories of rpc_pipefs. Out: the pipe.
//!
//! The kernel makes one for every mount, accessible to root only. The daemon that answers is unprivileged: its open call arrives here, and
//! we open the pipe for it. Only the directory comes from the daemon, and it is checked: the name of the file opened in it is fixed by us.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use shorefast_sys as sys;
use sys::bounded_call;
use sys::call as named;
use sys::seccomp::{self, Notification};

use crate::descriptor;
use crate::error::Refusal;
use crate::memory::{Memory, PATIENCE};

const PIPE: &str = "gssd";
/// Describes the pipe: the server's name and address. rpc.gssd reads it once it has the pipe.
const INFO: &str = "info";
/// RPC_PIPEFS_SUPER_MAGIC
const MAGIC: u32 = 0x6759_6969;

/// `user`: the service's uid, which becomes the owner of the pipe's `info` file.
pub fn open(call: &Notification, listener: BorrowedFd<'_>, user: u32) -> Result<OwnedFd, Refusal> {
    let [directory, name, ..] = call.arguments;
    let memory = Memory::of(call.tid, Instant::now() + PATIENCE);
    let name = memory.strings([name], PIPE.len() + 2).map(|[name]| name.unwrap_or_default()).unwrap_or_default();
    let bad = || Refusal::policy(Errno::BADF, "the service looked for a pipe in something that is not open");
    let directory = descriptor::of(call, listener, directory)?.ok_or_else(bad)?;
    if !seccomp::is_waiting(listener, call.id) {
        return Err(Refusal::policy(Errno::INTR, "the service ended while it called"));
    }
    // The directory may be on any filesystem, so fstatfs is bounded. Once it is known to be rpc_pipefs, no call on it can block on a
    // server.
    let filesystem = bounded_call::filesystem_of(directory.as_fd(), Instant::now() + PATIENCE).or_timed_out(|| "fstatfs()".to_owned())?;
    judge(&name, filesystem)?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let pipe = named(|| format!("openat2({PIPE:?})"), rustix::fs::openat2(&directory, PIPE, flags, Mode::empty(), within))?;
    let stat = named(|| format!("fstat({PIPE:?})"), rustix::fs::fstat(&pipe))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Fifo {
        return Err(Refusal::policy(Errno::ACCESS, "the service opened a pipe that is not a FIFO"));
    }
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    let given = rustix::fs::chownat(&directory, INFO, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW);
    named(|| format!("chown({INFO:?})"), given)?;
    Ok(pipe)
}

/// There is one such filesystem per network namespace, and a service only sees that of this host.
fn judge(name: &[u8], filesystem: u32) -> Result<(), Refusal> {
    if name != PIPE.as_bytes() {
        Err(Refusal::policy(Errno::ACCESS, "the service opened a file that is not a pipe for credentials"))
    } else if filesystem != MAGIC {
        Err(Refusal::policy(Errno::ACCESS, "the service looked for a pipe in a place that has none"))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pipe_and_only_where_the_kernel_made_it() {
        const TMPFS: u32 = 0x0102_1994;
        let rows: [(&[u8], u32, bool); 8] = [
            (b"gssd", MAGIC, true),
            (b"gssd", TMPFS, false),
            (b"idmap", MAGIC, false),
            (b"krb5", MAGIC, false),
            (b"", MAGIC, false),
            (b"gssd/", MAGIC, false),
            (b"./gssd", MAGIC, false),
            (b"../gssd", MAGIC, false),
        ];
        for (name, filesystem, is_allowed) in rows {
            assert_eq!(judge(name, filesystem).is_ok(), is_allowed, "{}", String::from_utf8_lossy(name));
        }
    }
}
