//! From a [`Spec`] to a running [`Client`]. Only the closure `life` in [`prepare`] runs elsewhere: it is
//! the body of the sandbox's first process. In: spec, root filesystem and context. Out:
//! [`Launched`] with the client, its mount namespace and its seccomp listener.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;
use shorefast_sys as sys;
use sys::bounded_call::Bounded;
use sys::namespace::Home;
use sys::process::Fresh;
use sys::shim::Program;

use crate::cgroup::Cgroup;
use crate::child;
use crate::error::Error;
use crate::handshake::{self, Event};
use crate::joins::Joins;
use crate::launcher::client::Client;
use crate::launcher::control;
use crate::launcher::fill::{self, ClientFiles};
use crate::launcher::first::FirstProcess;
use crate::launcher::host_mounts;
use crate::launcher::root_source::{self, Credentials, Opened};
use crate::launcher::source::{Owners, Source};
use crate::orders::{Descriptors, Orders};
use crate::spec::{IDS_PER_NAMESPACE, Identity, Ids, Processes, Rights, Shape, Spec};

pub use crate::launcher::root_source::Root;

/// A sandbox that waits for its orders, set up while the caller still plans. Dropped: killed.
#[derive(Debug)]
pub struct Prepared {
    first: FirstProcess,
    control: OwnedFd,
    shape: Shape,
}

/// What a launch needs besides the plan.
#[derive(Clone, Copy, Debug)]
pub struct LaunchContext<'a> {
    pub ids: Ids,
    pub cgroup: &'a Cgroup,
    /// The ring file that receives the client's output.
    pub log: &'a OwnedFd,
    /// The program that becomes pid 1.
    pub program: &'a Program,
    /// Held by pid 1, beside its keeper.
    pub recipe: Option<&'a OwnedFd>,
    pub deadline: Instant,
}

/// PATH inside the sandbox: the union of what distributions use.
const PATH: &[&str] = &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Starts the sandbox's first process. It prepares an empty root and then waits for orders; if we die, it sees end of
/// file on the control socket and exits.
pub fn prepare(shape: Shape) -> Result<Prepared, Error> {
    let (control, theirs) = handshake::pair().map_err(Error::Start)?;
    let fresh = match shape {
        Shape { rights: Rights::All, .. } => Fresh::empty(),
        Shape { processes: Processes::Own, .. } => Fresh::PID | Fresh::IPC | Fresh::UTS,
        Shape { processes: Processes::Host, .. } => Fresh::IPC | Fresh::UTS,
    };
    let holdings = || (theirs, sys::namespace::small_mount_namespace());
    let life = move |(control, small): &(OwnedFd, Option<OwnedFd>)| child::run(control, shape, small.as_ref());
    let first = sys::one_shot::start(fresh, holdings, life).map_err(Error::Start)?;
    Ok(Prepared { first: FirstProcess::new(first), control, shape })
}

impl Prepared {
    /// Sets where the client's files come from.
    pub fn with_root<'a>(self, spec: &Spec, root: Root<'a>) -> Result<Assigned<'a>, Error> {
        // This sandbox was prepared with the usual shape. A client that shares more with the host needs a new one.
        let prepared = if self.shape == spec.shape() { self } else { prepare(spec.shape())? };
        Ok(Assigned { prepared, root, source: None })
    }

    /// Waits until the root exists, and returns the mount namespace that contains it.
    fn standing(&self, deadline: Instant) -> Result<OwnedFd, Error> {
        expect(control::receive(self.control.as_fd(), deadline)?, |word| matches!(word, Event::Standing))?;
        sys::namespace::mounts_of(self.first.child()?.pidfd.as_fd()).map_err(Error::Start)
    }

    fn into_client(self, spec: &Spec, ids: Ids) -> Result<Client, Error> {
        let Self { first, control, .. } = self;
        Ok(Client::new(first.hand_over()?, control, spec, ids))
    }
}

/// A sandbox whose root filesystem is chosen. Dropped: killed.
#[derive(Debug)]
pub struct Assigned<'a> {
    prepared: Prepared,
    root: Root<'a>,
    source: Option<Bounded<OwnedFd>>,
}

impl<'a> Assigned<'a> {
    /// Adds the result of opening the client's source, if the caller has opened it already.
    pub fn with_source(self, source: Option<Bounded<OwnedFd>>) -> Self {
        Self { source, ..self }
    }

    /// To launch another sandbox with the same root.
    pub fn files(&self) -> Root<'a> {
        self.root
    }

    /// Sends the orders and fills the root. Dropping the result kills the sandbox.
    pub fn launch(self, spec: &'a Spec, context: &'a LaunchContext<'a>) -> Result<Launching<'a>, Error> {
        let Self { prepared, root, source: place } = self;
        let credentials = root_source::credentials(root, spec, context.ids)?;
        let owner = credentials.owner;
        let (orders, descriptors) = orders(spec, context, credentials)?;
        context.cgroup.admit(prepared.first.child()?.pid)?;
        prepared.first.come_back()?;
        control::send_orders(prepared.control.as_fd(), &orders, &descriptors).map_err(|error| why_not(prepared.control.as_fd(), error))?;
        drop(descriptors);

        // In parallel with the first process, which restricts itself meanwhile.
        let home = Home::here().map_err(Error::Start)?;
        let opened = root_source::open(root, prepared.shape.rights, &home, context.deadline)?;
        let mut source = spec.source.as_ref().map(|source| Source::open(source, place, context.deadline)).transpose()?;
        let kind = source.as_ref().map(|source| source.kind);
        let owners = spec.source.as_ref().map(|source| Owners::of(source.access, spec.identity, owner, context.ids));
        let tree = match owners {
            // Restricted once it is attached.
            Some(_) if spec.identity == Identity::HostRoot => source.take().map(|source| source.tree),
            Some(Owners::Unmapped) => source.take().map(|source| source.ready(None)).transpose()?,
            Some(Owners::Mapped(map)) => source.take().map(|source| source.ready(Some(&map))).transpose()?,
            Some(Owners::AsClient) | None => None,
        };
        let client_files = ClientFiles {
            spec,
            owner,
            stranger: context.ids.dedicated(),
            files: &opened.read_files(spec, context.ids, context.deadline)?,
            source: kind.map(|kind| (kind, tree.as_ref())),
            shown: &spec.shown.iter().map(host_mounts::tree).collect::<Result<Vec<_>, _>>()?,
            program: context.program,
            deadline: context.deadline,
        };
        let namespace = prepared.standing(context.deadline)?;
        fill::fill(&home, &namespace, &opened, &client_files).map_err(Error::Fill)?;
        let is_met_halfway = orders.is_met_halfway();
        let client = prepared.into_client(spec, context.ids)?;
        Ok(Launching { client, namespace, source, spec, context, is_met_halfway, _opened: opened })
    }
}

/// A sandbox with all its files, which is still restricting itself. Dropped: killed.
#[derive(Debug)]
pub struct Launching<'a> {
    client: Client,
    namespace: OwnedFd,
    source: Option<Source>,
    spec: &'a Spec,
    context: &'a LaunchContext<'a>,
    is_met_halfway: bool,
    /// Held until the client has started, so that the time for closing it does not delay the start.
    _opened: Opened<'a>,
}

/// A sandbox in which the client runs. Dropped: killed.
#[derive(Debug)]
pub struct Launched {
    pub client: Client,
    pub namespace: OwnedFd,
    /// The seccomp listener that receives the client's calls. `None`: the client mounts by itself, and no call is
    /// forwarded.
    pub listener: Option<OwnedFd>,
}

impl Launching<'_> {
    pub fn namespace(&self) -> &OwnedFd {
        &self.namespace
    }

    /// Waits until the client is being executed.
    pub fn complete(self) -> Result<Launched, Error> {
        match self.spec.shape().rights {
            Rights::None => self.complete_brokered(),
            Rights::All => self.complete_unbrokered(),
        }
    }

    fn complete_brokered(self) -> Result<Launched, Error> {
        let Self { client, namespace, source, spec, context, is_met_halfway, _opened } = self;
        if is_met_halfway {
            expect(control::receive(client.control(), context.deadline)?, |word| matches!(word, Event::Ready))?;
            if spec.identity == Identity::UserNamespace {
                let map = format!("0 {} {IDS_PER_NAMESPACE}\n", context.ids.base());
                sys::namespace::map_ids(client.pid(), &map).map_err(Error::Start)?;
            }
            if let Some(source) = source {
                source.show_in(&namespace, client.pid())?;
            }
        }
        let_go(&client, context)?;
        match expect(control::receive(client.control(), context.deadline)?, |word| matches!(word, Event::Filtered(_)))? {
            Event::Filtered(listener) => Ok(Launched { client, namespace, listener: Some(listener) }),
            _ => unreachable!("expect lets only this word through"),
        }
    }

    fn complete_unbrokered(self) -> Result<Launched, Error> {
        let Self { client, namespace, context, .. } = self;
        expect(control::receive(client.control(), context.deadline)?, |word| matches!(word, Event::Ready))?;
        let_go(&client, context)?;
        Ok(Launched { client, namespace, listener: None })
    }
}

/// Tells the first process that everything is in place, then sends the program of pid 1: the client's start does not
/// wait for that.
fn let_go(client: &Client, context: &LaunchContext<'_>) -> Result<(), Error> {
    let told = control::send_go(client.control())
        .and_then(|()| context.program.get())
        .and_then(|program| control::send_program(client.control(), program, context.recipe));
    told.map_err(|error| why_not(client.control(), error))
}

/// Why the sandbox closed its end of the socket: the error that it sent, if any.
fn why_not(control: BorrowedFd<'_>, error: sys::Error) -> Error {
    while error.errno() == rustix::io::Errno::PIPE {
        match control::take(control) {
            Ok(Event::Failed(text)) => return Error::Inside(text),
            Ok(Event::NotExecuted(text)) => return Error::Execute(text),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Error::Start(error)
}

fn expect(word: Event, is_it: impl Fn(&Event) -> bool) -> Result<Event, Error> {
    match word {
        word if is_it(&word) => Ok(word),
        Event::Failed(text) => Err(Error::Inside(text)),
        Event::NotExecuted(text) => Err(Error::Execute(text)),
        _ => Err(Error::Ended),
    }
}

fn orders(spec: &Spec, context: &LaunchContext<'_>, credentials: Credentials) -> Result<(Orders, Descriptors), Error> {
    let Credentials { owner, init_id, joins, environment: given } = credentials;
    let environment = environment(spec, given);
    let orders = Orders {
        identity: spec.identity,
        capabilities: spec.capabilities,
        held: spec.capabilities_held().bits(),
        owner,
        init_id,
        mark: (spec.identity == Identity::HostRoot).then(|| context.ids.mark()),
        role: spec.role,
        joins: joins.as_ref().map(Joins::outline),
        process_limits: spec.process_limits,
        argv: argv(spec),
        candidates: candidates(&spec.command[0], &environment),
        environment,
    };
    let dup = |fd: &OwnedFd| sys::call(|| "dup()".into(), fd.try_clone()).map_err(Error::Start);
    let (output_read, output_write) = output_pipe().map_err(Error::Start)?;
    let descriptors = Descriptors { output_read, output_write, ring: dup(context.log)?, joins };
    Ok((orders, descriptors))
}

fn output_pipe() -> sys::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = sys::call(|| "pipe2()".into(), rustix::pipe::pipe_with(PipeFlags::CLOEXEC))?;
    // Only the read end: a client may not expect a non-blocking pipe.
    sys::call(|| "fcntl(O_NONBLOCK)".into(), rustix::fs::fcntl_setfl(&read, OFlags::NONBLOCK))?;
    Ok((read, write))
}

fn argv(spec: &Spec) -> Vec<Vec<u8>> {
    let mut words: Vec<_> = spec.command.iter().map(|word| word.as_bytes().to_vec()).collect();
    if let Some(name) = &spec.arg0 {
        words[0] = name.as_bytes().to_vec();
    }
    words
}

fn candidates(helper: &OsStr, environment: &[(Vec<u8>, Vec<u8>)]) -> Vec<Vec<u8>> {
    if helper.as_bytes().contains(&b'/') {
        return vec![helper.as_bytes().to_vec()];
    }
    let path = environment.iter().find(|(name, _)| name == b"PATH").map_or(&[][..], |(_, value)| value);
    let directories = path.split(|byte| *byte == b':').filter(|directory| directory.first() == Some(&b'/'));
    directories.map(|directory| [directory, b"/", helper.as_bytes()].concat()).collect()
}

/// The last of several variables with one name wins: ours, then the container's, then the client definition's.
fn environment(spec: &Spec, given: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let path = PATH.join(":");
    let fixed = [("PATH", path.as_str()), ("HOME", "/root"), ("USER", "root"), ("LOGNAME", "root"), ("LANG", "C.UTF-8")];
    let fixed = fixed.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    let named = spec.environment.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    fixed.into_iter().chain(given).chain(named).collect::<BTreeMap<_, _>>().into_iter().collect()
}
