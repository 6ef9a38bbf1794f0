//! The tiny process on the host that outlives us and cleans up when the sandbox ends. While we mount,
//! it waits aside; once we let go of it, or die, it becomes the same few kilobytes as the sandbox's
//! pid 1 (`sys/shim/shim.rs`); and when its time comes, `shorefast __ended ID`, which is
//! [`crate::reconcile::ended`]. A filesystem that the kernel serves has no sandbox, and so no keeper.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use shorefast_sandbox::talk;
use shorefast_sys as sys;
use sys::process::Child;
use sys::shim::Program;
use sys::{Result, call};

use crate::origin;
use crate::process::Process;

/// The internal command that a keeper becomes.
pub const ENDED: &str = "__ended";

/// A keeper that is not released yet. Dropped: told that there is nothing to keep.
#[derive(Debug)]
pub struct Keeper {
    process: Child,
    control: OwnedFd,
    released: bool,
}

/// `sandbox`: its first process, as a pidfd. `log`: the mount's, in which its record stands as well: should the run directory be lost, the
/// keeper still knows what to clean up.
pub fn start(run_dir: &Path, id: &str, sandbox: BorrowedFd<'_>, log: BorrowedFd<'_>, program: &Program) -> Result<Keeper> {
    let binary = call(|| "open(\"/proc/self/exe\")".into(), File::open("/proc/self/exe"))?;
    let station = origin::station(run_dir)?;
    let arguments = vec![sys::c_string("keeper")?, sys::c_string(run_dir)?, sys::c_string(id)?, sys::c_string(&station.origin)?];
    let (control, theirs) = talk::pair()?;
    let mut places = vec![
        (theirs.as_fd(), sys::shim::CONTROL),
        (sandbox, sys::shim::SANDBOX),
        (binary.as_fd(), sys::shim::BINARY),
        (log, sys::shim::LOG),
    ];
    if let Some(away) = &station.away {
        places.extend([(away.namespace.as_fd(), sys::shim::HOME), (away.run_dir.as_fd(), sys::shim::RUN_DIR)]);
    }
    let process = sys::aside::start(program.get()?.as_fd(), arguments, &places)?;
    Ok(Keeper { process, control, released: false })
}

impl Keeper {
    pub fn process(&self) -> Option<Process> {
        Process::of(self.process.pid.as_raw_nonzero().get())
    }

    /// From here on the mount is the keeper's to clean up, when its sandbox ends.
    pub fn release(self) -> Result<()> {
        // Its end of our talk stays open: the kernel closes it when we end, and only then the keeper begins.
        let mut kept = ManuallyDrop::new(self);
        kept.released = true;
        kept.say(sys::shim::KEEP)
    }

    /// There is nothing to keep. Nobody waits for its end.
    pub fn dismiss(mut self) {
        self.released = true;
        let _ = rustix::process::pidfd_send_signal(&self.process.pidfd, rustix::process::Signal::KILL);
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
