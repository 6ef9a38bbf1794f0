//! A running client as a guard: a pidfd and a control socket come in, [`Event`]s go out; dropped, the client is killed
//! with everything it started. Runs in the launching process, except [`end_this_user`], which runs in a short-lived
//! child of it.

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

    /// Readable when [`Client::receive`] would not block.
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// How the helper exited.
    pub fn receive(&self) -> Result<Event, Error> {
        handshake::take(self.control.as_fd())
    }

    /// The mount is complete: lets the client live on without this process.
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
        // If the client has its own pid namespace, killing its pid 1 kills all.
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

/// Kills every process of a dedicated user, with a separate process, because that has to change its uid.
pub fn end_user(ids: Ids) {
    let uid = ids.dedicated().to_string();
    // Not by path: the executable may have been replaced by a newer version, or deleted.
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
