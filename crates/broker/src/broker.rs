//! In: the mount and umount calls of one client, from first to last. Out: an answer to each, and the client's mount.

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

/// Services that failed to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicesFailed {
    pub names: Vec<String>,
    pub problem: String,
}

/// Starts the client's services with the given names, or returns why not.
pub type StartServices<'a> = dyn FnMut(&[String]) -> Result<(), String> + 'a;

struct Services<'a> {
    start: &'a mut StartServices<'a>,
    /// Each is started once: a client that asks again gets the same answer.
    started: Vec<String>,
}

impl std::fmt::Debug for Services<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Services({:?})", self.started)
    }
}

/// The client's mount, not yet visible on the host. Dropping it discards the mount; processes that wait for a reply from it get an error.
#[derive(Debug)]
pub struct Mounted {
    pub mount: OwnedFd,
    pub identity: Identity,
    pub fstype: String,
    pub source: Vec<u8>,
    /// Served by the client, unlike a kernel filesystem, which outlives it.
    pub is_fuse: bool,
    /// Those of the client's services that it needs as long as it exists.
    pub services: Vec<String>,
    pub(crate) kept: bool,
}

impl Mounted {
    /// The mount is complete: it lives on without us.
    pub fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_fuse && !self.kept {
            // A client whose processes wait for each other in their own mount cannot be killed, and readers of its memory wait for its
            // files. The mount is still held here, so the device number cannot have been reused by another connection.
            let _ = sys::unmount::abort_connection(self.identity.minor);
        }
    }
}

/// Bounds the memory that a flood of bad calls can take.
const REMEMBERED_REFUSALS: usize = 16;

impl<'a> Broker<'a> {
    /// `deadline`: how long a server may take to answer the kernel.
    pub fn new(listener: OwnedFd, policy: &'a Policy, view: View, deadline: Instant) -> Self {
        Self { listener, policy, view, deadline, made: 0, mounted: None, refused: Vec::new(), services: None, services_failed: None }
    }

    /// Sets the function that starts the client's services.
    pub fn with_services(mut self, start: &'a mut StartServices<'a>) -> Self {
        self.services = Some(Services { start, started: Vec::new() });
        self
    }

    /// Readable when a call is pending.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    pub fn mounted(&self) -> Option<&Mounted> {
        self.mounted.as_ref()
    }

    /// Detaches the mount in the client's namespace.
    pub fn hide(&self) -> Result<(), Error> {
        self.view.hide().map_err(Error::View)
    }

    /// Takes no more calls of the client.
    pub fn into_mounted(self) -> Option<Mounted> {
        self.mounted
    }

    /// The calls that were not performed, oldest first.
    pub fn refused(&self) -> &[Refusal] {
        &self.refused
    }

    /// Why services that the client needs do not run. It cannot mount without them.
    pub fn services_failed(&self) -> Option<&ServicesFailed> {
        self.services_failed.as_ref()
    }

    /// Receives one pending call and answers it.
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
            // Killed between our work and our answer: the client never learned of this mount, so it is undone.
            self.roll_back();
        }
        Ok(())
    }

    /// While the client serves a mount, its memory is not read: it could be mapped from its own filesystem, and the read would wait for a
    /// reply that never comes. The registers are enough: a second mount is refused, and an unmount can only mean this one.
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

/// libmount probes whether umount2 knows a flag by passing it with invalid arguments: like the kernel, refuse unknown bits.
fn check_umount_flags(flags: u64) -> Result<(), Refusal> {
    let known = libc::MNT_FORCE | libc::MNT_DETACH | libc::MNT_EXPIRE | libc::UMOUNT_NOFOLLOW;
    if flags & !(known as u64) == 0 { Ok(()) } else { Err(Refusal::policy(Errno::INVAL, format!("unknown umount flags {flags:#x}"))) }
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes))
}
