//! A running client as a guard: a pidfd and a control socket come in, [`Event`]s go out; dropped, the client is killed
//! with everything it started.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::process::Pid;
use shorefast_sys as sys;

use crate::cleaner::members::{self, Sandbox};
use crate::cleaner::user;
use crate::error::Error;
use crate::handshake::{self, Event};
use crate::launcher::control;
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
        control::take(self.control.as_fd())
    }

    /// The mount is complete: lets the client live on without this process. `server`: the process that serves it, by
    /// its pid in the sandbox; how that one ends will be in the log.
    pub fn keep(mut self, server: Option<i32>) -> sys::Result<()> {
        let mut word = sys::shim::KEEP.to_vec();
        word.extend(server.into_iter().flat_map(i32::to_ne_bytes));
        handshake::say(self.control.as_fd(), &word)?;
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
            Shape { processes: Processes::Host, rights: Rights::None } => user::end(self.ids),
            Shape { processes: Processes::Host, rights: Rights::All } => {
                let since = sys::process::start_of(rustix::process::getpid()).unwrap_or(0);
                members::end_all(&Sandbox { ids: self.ids, since, mounts: None });
            }
        }
    }
}
