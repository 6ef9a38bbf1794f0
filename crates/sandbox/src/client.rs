//! A running client, as a guard: dropped, it is killed with all that it started.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::process::Pid;
use shorefast_sys as sys;

use crate::error::Error;
use crate::handshake::{self, Event};
use crate::members::{self, Sandbox};
use crate::spec::{Ids, Processes, Rights, Shape, Spec};

#[derive(Debug)]
pub struct Client {
    init: sys::process::Child,
    control: OwnedFd,
    shape: Shape,
    ids: Ids,
    kept: bool,
}

impl Client {
    pub(crate) fn new(init: sys::process::Child, control: OwnedFd, spec: &Spec, ids: Ids) -> Self {
        Self { init, control, shape: spec.shape(), ids, kept: false }
    }

    /// The sandbox's first process.
    pub fn pid(&self) -> Pid {
        self.init.pid
    }

    /// Readable when the first process has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.init.pidfd.as_fd()
    }

    /// Readable when [`Client::receive`] has something to say.
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// The helper's fate.
    pub fn receive(&self) -> Result<Event, Error> {
        handshake::take(self.control.as_fd())
    }

    /// The mount is complete: the client lives on without us.
    pub fn keep(mut self) -> sys::Result<()> {
        handshake::say(self.control.as_fd(), sys::shim::KEEP)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // With a pid namespace, the end of its pid 1 is the end of all.
        self.init.kill_and_reap();
        match self.shape {
            Shape { processes: Processes::Own, .. } => {}
            Shape { processes: Processes::Host, rights: Rights::None } => end_user(self.ids),
            Shape { processes: Processes::Host, rights: Rights::All } => {
                let since = sys::process::start_of(rustix::process::getpid()).unwrap_or(0);
                members::end_all(&Sandbox { ids: self.ids, since, mounts: None });
            }
        }
    }
}

/// Kills every process of a dedicated user, in a process of its own: it has to become that user.
pub fn end_user(ids: Ids) {
    let uid = ids.dedicated().to_string();
    // Not by its name: the file that we were started from may have been replaced by a newer version, or be gone.
    let _ = Command::new("/proc/self/exe").arg0("shorefast").args([END_USER, &uid]).stdin(Stdio::null()).status();
}

/// The internal command that [`end_user`] runs.
pub const END_USER: &str = "__end-user";

/// The body of [`END_USER`].
pub fn end_this_user(uid: u32) -> sys::Result<()> {
    sys::privilege::become_user(rustix::process::Uid::from_raw(uid), rustix::process::Gid::from_raw(uid))?;
    sys::process::kill_all_of_this_user();
    Ok(())
}
