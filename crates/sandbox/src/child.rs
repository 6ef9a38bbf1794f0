//! The sandbox's first process, from the fork to the client's execve.
//!
//! It starts as a copy of the launching process, the host's root included, and gives up one thing
//! after the other. The order is forced: mounts need the host's root, the user namespace takes it
//! away, the filter comes after all that it forbids.

use std::ffi::CString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::process::{Gid, Uid};
use shorefast_sys as sys;
use sys::{Result, call};

use crate::filter::{self, AbstractSockets};
use crate::root::Root;
use crate::spec::{INIT_INSIDE, Identity, Ids, Processes};
use crate::talk;

/// All that the child needs, prepared before the fork.
#[derive(Debug)]
pub struct Child<'a> {
    pub control: OwnedFd,
    pub cgroup: Vec<File>,
    pub root: Root<'a>,
    pub identity: Identity,
    pub processes: Processes,
    pub ids: Ids,
    pub program: &'a OwnedFd,
    pub output: OutputPipe,
    pub ring: &'a OwnedFd,
    pub argv: Vec<CString>,
    /// The helper's possible paths, in the order of PATH.
    pub candidates: Vec<CString>,
    pub environment: Vec<CString>,
}

/// The client's stdout and stderr.
#[derive(Debug)]
pub struct OutputPipe {
    pub read: OwnedFd,
    pub write: OwnedFd,
}

impl Child<'_> {
    /// Never returns: ends as pid 1 of the sandbox, or with a word about why not.
    pub fn run(mut self) -> ! {
        if let Err(error) = self.become_init() {
            talk::say_failed(self.control.as_fd(), &error.to_string());
        }
        sys::process::exit_now(1)
    }

    fn become_init(&mut self) -> Result<()> {
        // A session of its own: no terminal of the caller can be reached, no signal of its group arrives.
        call(|| "setsid()".into(), rustix::process::setsid())?;
        sys::process::reset_signals();
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0));
        for entrance in &mut self.cgroup {
            call(|| "write(cgroup.procs)".into(), entrance.write_all(b"0"))?;
        }
        if self.processes == Processes::Host {
            call(|| "prctl(PR_SET_CHILD_SUBREAPER)".into(), rustix::process::set_child_subreaper(Some(rustix::process::getpid())))?;
        }
        self.root.enter()?;
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        if self.identity == Identity::UserNamespace {
            sys::namespace::unshare_user()?;
        }
        talk::say_ready(self.control.as_fd())?;
        self.wait_for_go()?;

        sys::privilege::drop_groups()?;
        sys::privilege::empty_bounding_set()?;
        sys::privilege::no_new_privileges()?;
        self.filter()?;
        match sys::process::fork_plainly()? {
            None => self.become_client(),
            Some(helper) => {
                let helper = sys::c_string(helper.as_raw_nonzero().to_string())?;
                self.drop_to(INIT_INSIDE, self.ids.init(self.identity))?;
                let places = [
                    (self.control.as_fd(), sys::shim::CONTROL),
                    (self.output.read.as_fd(), sys::shim::OUTPUT),
                    (self.ring.as_fd(), sys::shim::RING),
                ];
                sys::shim::become_it(self.program.as_fd(), &[c"init", &helper], &places).map(drop)
            }
        }
    }

    fn wait_for_go(&self) -> Result<()> {
        let mut word = [0u8; 1];
        let n = call(|| "recv(control)".into(), rustix::net::recv(&self.control, &mut word[..], rustix::net::RecvFlags::empty()))?;
        if n.1 == 1 && word == *talk::GO { Ok(()) } else { sys::process::exit_now(1) }
    }

    fn filter(&self) -> Result<()> {
        let sockets = if sys::landlock::can_scope() {
            sys::landlock::restrict_scope()?;
            AbstractSockets::Scoped
        } else {
            AbstractSockets::Denied
        };
        let listener = sys::seccomp::install(&filter::program(sockets))?;
        // It must not stay open here: with nobody listening, later calls fail at once instead of
        // waiting for ever.
        talk::say_filtered(self.control.as_fd(), &listener)
    }

    fn become_client(&self) -> ! {
        let error = match self.prepare_client() {
            Err(error) => error,
            Ok(()) => self.execute(),
        };
        talk::say_not_executed(self.control.as_fd(), &error.to_string());
        sys::process::exit_now(127)
    }

    fn prepare_client(&self) -> Result<()> {
        self.drop_to(0, self.ids.client(self.identity))?;
        sys::process::lay_out(&[(self.output.write.as_fd(), 1), (self.output.write.as_fd(), 2)], None).map(drop)
    }

    /// Like execvp: the first candidate that is there.
    fn execute(&self) -> sys::Error {
        let mut result = sys::Error::new(format!("{:?}", self.argv[0]), rustix::io::Errno::NOENT);
        for path in &self.candidates {
            result = sys::process::exec(path, &self.argv, &self.environment);
            if result.errno() != rustix::io::Errno::NOENT {
                break;
            }
        }
        result
    }

    /// Becomes a user without any capability.
    fn drop_to(&self, inside: u32, on_host: u32) -> Result<()> {
        let id = if self.identity == Identity::UserNamespace { inside } else { on_host };
        sys::privilege::become_user(Uid::from_raw(id), Gid::from_raw(id))?;
        sys::privilege::drop_capabilities()
    }
}
