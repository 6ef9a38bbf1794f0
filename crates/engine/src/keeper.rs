//! The tiny process on the host that outlives us and cleans up when the mount ends. While we mount,
//! it waits aside; once we let go of it, or die, it becomes the same few kilobytes as the sandbox's
//! pid 1 (`sys/shim/shim.rs`); and when its time comes, `shorefast __ended ID`, which is
//! [`crate::reconcile::ended`].

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::inotify;
use shorefast_sandbox::spec::TARGET;
use shorefast_sandbox::talk;
use shorefast_sys as sys;
use sys::errand;
use sys::process::Child;
use sys::shim::Program;
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

/// What a keeper can be asked to watch.
#[derive(Debug)]
pub struct Watch<'a> {
    /// The sandbox's first process, as a pidfd.
    pub sandbox: BorrowedFd<'a>,
    /// The sandbox's mount namespace, where the client sees its mount. Seen there, it would stay
    /// alive after the host's umount: the keeper takes it away.
    pub view: BorrowedFd<'a>,
    pub filesystem: Option<&'a FilesystemEnd>,
}

pub fn start(run_dir: &Path, id: &str, watch: &Watch<'_>, program: &Program) -> Result<Keeper> {
    let binary = call(|| "open(\"/proc/self/exe\")".into(), File::open("/proc/self/exe"))?;
    let home = sys::namespace::own_mounts()?;
    let arguments = vec![sys::c_string("keeper")?, sys::c_string(run_dir)?, sys::c_string(id)?, sys::c_string(TARGET)?];
    let (control, theirs) = talk::pair()?;
    let mut places = vec![
        (theirs.as_fd(), sys::shim::CONTROL),
        (watch.sandbox, sys::shim::SANDBOX),
        (binary.as_fd(), sys::shim::BINARY),
        (watch.view, sys::shim::VIEW),
        (home.as_fd(), sys::shim::HOME),
    ];
    places.extend(watch.filesystem.map(|end| (end.0.as_fd(), sys::shim::FILESYSTEM)));
    let process = sys::aside::start(program.get()?.as_fd(), arguments, &places)?;
    Ok(Keeper { process, control, released: false })
}

impl Keeper {
    pub fn process(&self) -> Option<Process> {
        Process::of(self.process.pid.as_raw_nonzero().get())
    }

    /// From here on the mount is the keeper's to clean up, when its sandbox ends.
    pub fn release(self) -> Result<()> {
        self.let_go(sys::shim::KEEP)
    }

    /// The same for a filesystem that the kernel serves, when that ends.
    pub fn release_to_filesystem(self) -> Result<()> {
        self.let_go(sys::shim::KEEP_FILESYSTEM)
    }

    fn let_go(self, word: &[u8]) -> Result<()> {
        // Its end of our talk stays open: the kernel closes it when we end, and only then the keeper begins.
        let mut kept = ManuallyDrop::new(self);
        kept.released = true;
        kept.say(word)
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

/// The server has just answered.
const WATCH_WITHIN: Duration = Duration::from_secs(2);

/// Becomes readable when a filesystem is gone for good. Does not hold it.
#[derive(Debug)]
pub struct FilesystemEnd(OwnedFd);

impl FilesystemEnd {
    /// `None`: the kernel grants no more of these (fs.inotify.max_user_instances).
    pub fn prepare() -> Option<Self> {
        inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok().map(Self)
    }

    pub fn watch(&self, mount: &OwnedFd) -> Result<()> {
        // IN_UNMOUNT is reported with any watch; what this one asks for never happens to a root. The
        // kernel asks the server whether we may read it.
        let added = errand::add_watch(self.0.as_fd(), mount.as_fd(), inotify::WatchFlags::DELETE_SELF, Instant::now() + WATCH_WITHIN);
        added.or_timed_out(|| "inotify_add_watch()".into())
    }
}
