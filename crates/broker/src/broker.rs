//! One client's calls, from the first to the last.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::io::Errno;
use shorefast_sys as sys;
use sys::mount::Identity;
use sys::seccomp::{self, Heard, Notification};

use crate::call::{self, Call, MountCall};
use crate::error::{Error, Refusal, Rule};
use crate::memory::Memory;
use crate::perform;
use crate::policy::{Policy, Start};
use crate::view::View;

/// Answers a client's mount and umount calls until its mount is complete.
#[derive(Debug)]
pub struct Broker<'a> {
    listener: OwnedFd,
    policy: &'a Policy,
    view: View,
    deadline: Instant,
    made: u32,
    mounted: Option<Mounted>,
    refused: Vec<Refusal>,
    services: Option<Services<'a>>,
    services_failed: Option<ServicesFailed>,
}

/// Services that do not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicesFailed {
    pub names: Vec<String>,
    pub problem: String,
}

/// Starts those of the client's services that it is given the names of, or says why not.
pub type StartServices<'a> = dyn FnMut(&[String]) -> Result<(), String> + 'a;

struct Services<'a> {
    start: &'a mut StartServices<'a>,
    /// Once each: a client that asks again gets no other answer.
    started: Vec<String>,
}

impl std::fmt::Debug for Services<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Services({:?})", self.started)
    }
}

/// The client's mount: nobody on the host sees it yet. Dropped: never will, and whoever waits for an answer of it gets an error.
#[derive(Debug)]
pub struct Mounted {
    pub mount: OwnedFd,
    pub identity: Identity,
    pub fstype: String,
    pub source: Vec<u8>,
    /// Served by the client, in contrast to a kernel filesystem, which outlives it.
    pub is_fuse: bool,
    /// Those of the client's services that it needs as long as it lives.
    pub services: Vec<String>,
    pub(crate) kept: bool,
}

impl Mounted {
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_fuse && !self.kept {
            // A client whose processes wait for each other in its own mount cannot be killed, and those that look into its memory wait
            // for its files. The mount is still held here, so this number is not somebody else's connection by now.
            let _ = sys::unmount::abort_connection(self.identity.minor);
        }
    }
}

/// A client that floods us with bad calls must not fill our memory with reasons.
const REMEMBERED_REFUSALS: usize = 16;

impl<'a> Broker<'a> {
    /// `deadline`: until then a server may take to answer the kernel.
    pub fn new(listener: OwnedFd, policy: &'a Policy, view: View, deadline: Instant) -> Self {
        Self { listener, policy, view, deadline, made: 0, mounted: None, refused: Vec::new(), services: None, services_failed: None }
    }

    /// Who is told to start the client's services.
    pub fn with_services(mut self, start: &'a mut StartServices<'a>) -> Self {
        self.services = Some(Services { start, started: Vec::new() });
        self
    }

    /// Readable when a call waits.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    pub fn mounted(&self) -> Option<&Mounted> {
        self.mounted.as_ref()
    }

    /// Takes the mount out of the client's sight.
    pub fn hide(&self) -> Result<(), Error> {
        self.view.hide().map_err(Error::View)
    }

    /// The mount is complete: it lives on without us.
    pub fn keep(mut self) {
        self.mounted.iter_mut().for_each(Mounted::keep);
    }

    /// What was not performed, oldest first.
    pub fn refused(&self) -> &[Refusal] {
        &self.refused
    }

    /// Why services do not run that the client needs. It cannot mount what it wants without them.
    pub fn services_failed(&self) -> Option<&ServicesFailed> {
        self.services_failed.as_ref()
    }

    /// Takes one waiting call and answers it.
    pub fn answer_next(&mut self) -> Result<(), Error> {
        let Some(notification) = seccomp::receive(self.listener.as_fd()).map_err(Error::Receive)? else {
            return Ok(());
        };
        let result = match self.mounted {
            Some(_) => self.answer_unread(&notification),
            None => self.answer_read(&notification),
        };
        let answer = result.as_ref().copied().map_err(|refusal| refusal.errno);
        if let Err(refusal) = result {
            self.remember(refusal);
        }
        let heard = seccomp::answer(self.listener.as_fd(), notification.id, answer).map_err(Error::Answer)?;
        if heard == Heard::Gone && answer.is_ok() {
            // Killed between our work and our answer: nobody knows of this mount, so it must not be.
            self.roll_back();
        }
        Ok(())
    }

    /// While the client serves a mount, its memory is not touched: it could be a file of its own
    /// filesystem, and reading it would wait for an answer that never comes. The registers say
    /// enough: a second mount is refused, and whatever it unmounts, it has only this one.
    fn answer_unread(&mut self, notification: &Notification) -> Result<(), Refusal> {
        if notification.number != libc::SYS_umount2 {
            return Err(Refusal::by_rule(Rule::Count, Errno::BUSY, "the client mounted a second time"));
        }
        check_umount_flags(notification.arguments[1])?;
        self.roll_back();
        Ok(())
    }

    fn answer_read(&mut self, notification: &Notification) -> Result<(), Refusal> {
        if notification.number == libc::SYS_umount2 {
            check_umount_flags(notification.arguments[1])?;
        }
        if self.made >= self.policy.mounts {
            return Err(Refusal::by_rule(Rule::Count, Errno::PERM, format!("the client made more than {} mounts", self.policy.mounts)));
        }
        match self.copy(notification)? {
            Call::Mount(call) if call.fstype == sys::shim::ASK => self.start_services_for_asking(),
            Call::Mount(call) => self.mount(notification, &call),
            Call::Umount { target, .. } => {
                Err(Refusal::policy(Errno::INVAL, format!("the client has nothing mounted at {:?}", path(&target))))
            }
        }
    }

    fn copy(&self, notification: &Notification) -> Result<Call, Refusal> {
        let call = call::decode(notification, &Memory::of(notification.tid, self.deadline))?;
        if seccomp::is_waiting(self.listener.as_fd(), notification.id) {
            Ok(call)
        } else {
            Err(Refusal::policy(Errno::INTR, "the client ended while it called"))
        }
    }

    fn mount(&mut self, notification: &Notification, call: &MountCall) -> Result<(), Refusal> {
        let order = self.policy.judge(call)?;
        let target = path(&call.target);
        let is_ours = self.view.is_target(notification.tid, target, self.deadline);
        if !is_ours || !seccomp::is_waiting(self.listener.as_fd(), notification.id) {
            return Err(Refusal::policy(Errno::PERM, format!("the client may not mount at {target:?}")));
        }
        let used: Vec<_> = self.policy.services_used_by(&call.data).collect();
        let first = used.iter().filter(|services| services.start == Start::BeforeTheMount);
        self.start_services(&first.flat_map(|services| services.names.clone()).collect::<Vec<_>>())?;
        let mount = perform::mount(&order, &self.listener, notification, &self.view, self.deadline)?;
        let identity = sys::mount::identify(mount.as_fd()).inspect_err(|_| drop(self.view.hide()))?;
        if !self.view.is_new(&identity) {
            let _ = self.view.hide();
            return Err(Refusal::policy(Errno::STALE, format!("what is at {target:?} is not what was mounted there")));
        }
        self.made += 1;
        self.mounted = Some(Mounted {
            mount,
            identity,
            fstype: order.full_type(),
            source: order.source.clone(),
            is_fuse: order.is_fuse(),
            services: used.iter().flat_map(|services| services.names.clone()).collect(),
            kept: false,
        });
        Ok(())
    }

    fn start_services_for_asking(&mut self) -> Result<(), Refusal> {
        let names = self.policy.services_for_asking();
        if names.is_empty() {
            return Err(Refusal::policy(Errno::PERM, "the client asked for services that it does not have"));
        }
        self.start_services(&names)
    }

    fn start_services(&mut self, names: &[String]) -> Result<(), Refusal> {
        let Some(services) = &mut self.services else { return Ok(()) };
        let new: Vec<_> = names.iter().filter(|name| !services.started.contains(name)).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        services.started.extend(new.clone());
        (services.start)(&new).map_err(|problem| {
            self.services_failed = Some(ServicesFailed { names: new, problem });
            Refusal::policy(Errno::AGAIN, "the client's services do not run")
        })
    }

    fn roll_back(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            // Fails only if there is nothing left to hide.
            let _ = self.view.hide();
            drop(mounted);
        }
    }

    fn remember(&mut self, refusal: Refusal) {
        if self.refused.len() < REMEMBERED_REFUSALS && !self.refused.contains(&refusal) {
            self.refused.push(refusal);
        }
    }
}

/// libmount asks whether umount2 knows a flag by passing it with nonsense: like the kernel, refuse
/// unknown bits.
fn check_umount_flags(flags: u64) -> Result<(), Refusal> {
    let known = libc::MNT_FORCE | libc::MNT_DETACH | libc::MNT_EXPIRE | libc::UMOUNT_NOFOLLOW;
    if flags & !(known as u64) == 0 { Ok(()) } else { Err(Refusal::policy(Errno::INVAL, format!("unknown umount flags {flags:#x}"))) }
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes))
}
