//! The tiny process on the host that outlives us and cleans up when the mount ends. It is the
//! same few kilobytes as the sandbox's pid 1 (`sys/shim/shim.rs`); when its time comes it becomes
//! `shorefast __ended ID`, which is [`crate::reconcile::ended`].

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify;
use shorefast_sys as sys;
use sys::process::{Child, Fork, Fresh};
use sys::{Result, call};

use crate::record::Process;

/// The internal command that a keeper becomes.
pub const ENDED: &str = "__ended";

/// A keeper that is not released yet. Dropped: told that there is nothing to keep.
#[derive(Debug)]
pub struct Keeper {
    process: Child,
    control: OwnedFd,
    released: bool,
}

/// Waits for `watch` to become readable: a pidfd, or an inotify descriptor.
pub fn start(run_dir: &Path, id: &str, watch: BorrowedFd<'_>, program: &OwnedFd) -> Result<Keeper> {
    let binary = call(|| "open(\"/proc/self/exe\")".into(), File::open("/proc/self/exe"))?;
    let arguments = [sys::c_string("keeper")?, sys::c_string(run_dir)?, sys::c_string(id)?];
    let pair = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    );
    let (control, theirs) = call(|| "socketpair()".into(), pair)?;
    match sys::process::fork(Fresh::empty())? {
        Fork::Parent(process) => Ok(Keeper { process, control, released: false }),
        Fork::Child => {
            drop(control);
            let _ = become_keeper(&theirs, watch, &binary, program, &arguments);
            sys::process::exit_now(1)
        }
    }
}

fn become_keeper(control: &OwnedFd, watch: BorrowedFd<'_>, binary: &File, program: &OwnedFd, arguments: &[CString]) -> Result<()> {
    sys::process::reset_signals();
    call(|| "setsid()".into(), rustix::process::setsid())?;
    call(|| "chdir(\"/\")".into(), rustix::process::chdir("/"))?;
    let places = [(control.as_fd(), sys::shim::CONTROL), (watch, sys::shim::WATCH), (binary.as_fd(), sys::shim::BINARY)];
    let arguments: Vec<_> = arguments.iter().map(CString::as_c_str).collect();
    sys::shim::become_it(program.as_fd(), &arguments, &places).map(drop)
}

impl Keeper {
    pub fn process(&self) -> Option<Process> {
        Process::of(self.process.pid.as_raw_nonzero().get())
    }

    /// From here on the mount is the keeper's to clean up.
    pub fn release(mut self) -> Result<()> {
        self.released = true;
        self.say(sys::shim::KEEP)
    }

    fn say(&self, word: &[u8]) -> Result<()> {
        let sent = rustix::net::send(&self.control, word, rustix::net::SendFlags::NOSIGNAL);
        call(|| "send(keeper)".into(), sent).map(drop)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.released && self.say(sys::shim::QUIT).is_ok() {
            self.process.kill_and_reap();
        }
    }
}

/// Becomes readable when the filesystem behind `mount` is gone for good. Does not hold it. `None`:
/// the kernel grants no more of these (fs.inotify.max_user_instances); the record then stays until
/// the next call of ours.
pub fn end_of_filesystem(mount: &OwnedFd) -> Option<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok()?;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(mount));
    // Something has to be watched for IN_UNMOUNT to be reported with it; this never happens to a root.
    inotify::add_watch(&watch, path.as_str(), inotify::WatchFlags::DELETE_SELF).ok()?;
    Some(watch)
}
