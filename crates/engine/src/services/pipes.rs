//! The kernel's requests for RPC credentials, which come through pipes in rpc_pipefs. Out: whether a daemon answers them, and the process
//! that opens them for a service without the permission to.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::AtFlags;
use rustix::mount::MountAttrFlags;
use shorefast_broker::{Grant, ServiceBroker};
use shorefast_sys as sys;
use sys::process_scan::{self, ProcessScan};

use crate::process::Process;

/// The internal command that opens pipes for a service; the service's calls arrive at its stdin.
pub const SERVICE_BROKER: &str = "__pipes";

/// The kernel treats the holder of this pipe as rpc.gssd.
const SIGN: &str = "gssd/clntXX/gssd";
/// The only program for it.
const ANSWERER: &[u8] = b"rpc.gssd\n";

/// Whether an rpc.gssd runs on this host, ours or the host's.
pub fn are_answered() -> bool {
    // A detached mount; all mounts of one network namespace are the same filesystem.
    let Ok(pipes) = sys::mount::new_filesystem("rpc_pipefs", &[], MountAttrFlags::MOUNT_ATTR_NOSUID) else { return false };
    let Ok(sign) = rustix::fs::statat(&pipes, SIGN, AtFlags::SYMLINK_NOFOLLOW).map(|sign| (sign.st_dev, sign.st_ino)) else { return false };
    let is_answerer = |process: &Path| fs::read(process.join("comm")).is_ok_and(|name| name == ANSWERER);
    ProcessScan::start().map(process_scan::directory).filter(|path| is_answerer(path)).any(|process| holds(&process, sign))
}

/// Any process can have that name, and hang when it is looked at.
fn holds(process: &Path, file: (u64, u64)) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
    let links = descriptors.flatten().filter_map(|entry| sys::c_string(entry.path()).ok()).collect();
    sys::bounded_call::leads_any(links, file, Instant::now() + PATIENCE)
}

const PATIENCE: Duration = Duration::from_secs(3);

/// Hands the service's calls to a separate process for the rest of its life.
pub fn keep_open(listener: OwnedFd, user: u32) -> io::Result<Process> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("shorefast").args([SERVICE_BROKER, &user.to_string()]).stdin(listener).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.current_dir("/").spawn()?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    Process::of_ours(pid).ok_or_else(|| io::Error::other("the process that opens its pipes exited at once"))
}

/// The body of [`SERVICE_BROKER`]. Ends with the service.
pub fn open_for(user: u32, listener: OwnedFd) -> Result<(), shorefast_broker::Error> {
    // Detaches from the caller's terminal and its signals.
    let _ = rustix::process::setsid();
    let mut service_broker = ServiceBroker::new(listener, &[Grant::Pipes], user);
    loop {
        let (calls, ended) = {
            let listener = service_broker.listener();
            let mut fds = [PollFd::new(&listener, PollFlags::IN)];
            let waited = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None));
            let happened = fds[0].revents();
            (happened.contains(PollFlags::IN), waited.is_err() || !(happened - PollFlags::IN).is_empty())
        };
        if calls {
            service_broker.answer_next()?;
        } else if ended {
            return Ok(());
        }
    }
}
