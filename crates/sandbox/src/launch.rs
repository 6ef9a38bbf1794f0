//! From a spec to a running client, as seen by the process that mounts.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;
use shorefast_sys as sys;
use sys::errand::Errand;
use sys::namespace::Home;
use sys::process::Fresh;
use sys::shim::Program;

use crate::beside;
use crate::cgroup::Cgroup;
use crate::child;
use crate::client::Client;
use crate::container::Joins;
use crate::error::Error;
use crate::fill::{self, Belongings};
use crate::first::FirstProcess;
use crate::furnish::{self, Household, Opened};
use crate::orders::{Descriptors, Orders};
use crate::source::{Owners, Source};
use crate::spec::{IDS_PER_NAMESPACE, Identity, Ids, Processes, Rights, Shape, Spec};
use crate::talk::{self, Word};

pub use crate::furnish::Root;

/// A sandbox that waits for its orders, set up while the caller still plans. Dropped: gone.
#[derive(Debug)]
pub struct Nest {
    first: FirstProcess,
    control: OwnedFd,
    shape: Shape,
}

/// What the launch gets from its surroundings, in contrast to the plan.
#[derive(Debug)]
pub struct Surroundings<'a> {
    pub ids: Ids,
    pub cgroup: &'a Cgroup,
    /// Where the client's output is kept.
    pub log: &'a OwnedFd,
    /// The program of pid 1.
    pub program: &'a Program,
    pub deadline: Instant,
}

/// The search path inside: the union of what distributions use.
const PATH: &[&str] = &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Starts the sandbox's first process. It gets ready on its own and then waits for orders; should
/// we die, it notices and ends.
pub fn prepare(shape: Shape) -> Result<Nest, Error> {
    let (control, theirs) = talk::pair().map_err(Error::Start)?;
    let fresh = match shape {
        Shape { rights: Rights::All, .. } => Fresh::empty(),
        Shape { processes: Processes::Own, .. } => Fresh::PID | Fresh::IPC | Fresh::UTS,
        Shape { processes: Processes::Host, .. } => Fresh::IPC | Fresh::UTS,
    };
    let holdings = || (theirs, sys::namespace::small_mount_namespace());
    let life = move |(control, small): &(OwnedFd, Option<OwnedFd>)| child::run(control, shape, small.as_ref());
    let first = sys::offshoot::start(fresh, holdings, life).map_err(Error::Start)?;
    Ok(Nest { first: FirstProcess::new(first), control, shape })
}

impl Nest {
    /// With where the files are that the client will see.
    pub fn furnish<'a>(self, spec: &Spec, root: Root<'a>) -> Result<Furnished<'a>, Error> {
        // Prepared for the usual case; a client that shares more with the host needs another.
        let nest = if self.shape == spec.shape() { self } else { prepare(spec.shape())? };
        Ok(Furnished { nest, root, source: None })
    }

    /// Waits for its root; the mount namespace is where that stands.
    fn standing(&self, deadline: Instant) -> Result<OwnedFd, Error> {
        expect(talk::hear(self.control.as_fd(), deadline)?, |word| matches!(word, Word::Standing))?;
        sys::namespace::mounts_of(self.first.child()?.pidfd.as_fd()).map_err(Error::Start)
    }

    fn into_client(self, spec: &Spec, ids: Ids) -> Result<Client, Error> {
        let Self { first, control, .. } = self;
        Ok(Client::new(first.hand_over()?, control, spec, ids))
    }
}

/// A sandbox with its client's files. Dropped: gone.
#[derive(Debug)]
pub struct Furnished<'a> {
    nest: Nest,
    root: Root<'a>,
    source: Option<Errand<OwnedFd>>,
}

impl<'a> Furnished<'a> {
    /// With what came of opening the client's source.
    pub fn with_source(self, source: Option<Errand<OwnedFd>>) -> Self {
        Self { source, ..self }
    }

    /// For another nest.
    pub fn files(&self) -> Root<'a> {
        self.root
    }

    /// Tells it what to become. The result, dropped, ends it.
    pub fn launch(self, spec: &'a Spec, around: &'a Surroundings<'a>) -> Result<Launching<'a>, Error> {
        let Self { nest, root, source: place } = self;
        let household = furnish::household(root, spec, around.ids)?;
        let owner = household.owner;
        let (orders, descriptors) = orders(spec, around, household)?;
        around.cgroup.admit(nest.first.child()?.pid)?;
        nest.first.come_back()?;
        talk::say_orders(nest.control.as_fd(), &orders, &descriptors).map_err(|error| why_not(nest.control.as_fd(), error))?;
        drop(descriptors);

        // While the first process restricts itself.
        let home = Home::here().map_err(Error::Start)?;
        let opened = furnish::open(root, nest.shape.rights, &home, around.deadline)?;
        let mut source = spec.source.as_ref().map(|source| Source::open(source, place, around.deadline)).transpose()?;
        let kind = source.as_ref().map(|source| source.kind);
        let owners = spec.source.as_ref().map(|source| Owners::of(source.access, spec.identity, owner, around.ids));
        let tree = match owners {
            // Restricted once it is attached.
            Some(_) if spec.identity == Identity::HostRoot => source.take().map(|source| source.tree),
            Some(Owners::Unmapped) => source.take().map(|source| source.ready(None)).transpose()?,
            Some(Owners::Mapped(map)) => source.take().map(|source| source.ready(Some(&map))).transpose()?,
            Some(Owners::AsClient) | None => None,
        };
        let belongings = Belongings {
            spec,
            owner,
            stranger: around.ids.dedicated(),
            files: &opened.read_files(spec, around.ids, around.deadline)?,
            source: kind.map(|kind| (kind, tree.as_ref())),
            shown: &spec.shown.iter().map(beside::tree).collect::<Result<Vec<_>, _>>()?,
            program: around.program,
            deadline: around.deadline,
        };
        let namespace = nest.standing(around.deadline)?;
        fill::fill(&home, &namespace, &opened, &belongings).map_err(Error::Fill)?;
        let is_met_halfway = orders.is_met_halfway();
        let client = nest.into_client(spec, around.ids)?;
        Ok(Launching { client, namespace, source, spec, around, is_met_halfway, _opened: opened })
    }
}

/// A sandbox with all its files, which restricts itself. Dropped: gone.
#[derive(Debug)]
pub struct Launching<'a> {
    client: Client,
    namespace: OwnedFd,
    source: Option<Source>,
    spec: &'a Spec,
    around: &'a Surroundings<'a>,
    is_met_halfway: bool,
    /// Closed only when the client has started, which does not need to wait for that.
    _opened: Opened<'a>,
}

/// A sandbox in which the client runs. Dropped: gone.
#[derive(Debug)]
pub struct Launched {
    pub client: Client,
    /// The sandbox's mount namespace.
    pub namespace: OwnedFd,
    /// Hears the client's calls. `None`: nobody has to hear them.
    pub listener: Option<OwnedFd>,
}

impl Launching<'_> {
    /// The sandbox's mount namespace.
    pub fn namespace(&self) -> &OwnedFd {
        &self.namespace
    }

    /// Waits until the client is being executed.
    pub fn complete(self) -> Result<Launched, Error> {
        match self.spec.shape().rights {
            Rights::None => self.complete_heard(),
            Rights::All => self.complete_unheard(),
        }
    }

    fn complete_heard(self) -> Result<Launched, Error> {
        let Self { client, namespace, source, spec, around, is_met_halfway, _opened } = self;
        if is_met_halfway {
            expect(talk::hear(client.control(), around.deadline)?, |word| matches!(word, Word::Ready))?;
            if spec.identity == Identity::UserNamespace {
                let map = format!("0 {} {IDS_PER_NAMESPACE}\n", around.ids.base());
                sys::namespace::map_ids(client.pid(), &map).map_err(Error::Start)?;
            }
            if let Some(source) = source {
                source.show_in(&namespace, client.pid())?;
            }
        }
        let_go(&client, around)?;
        match expect(talk::hear(client.control(), around.deadline)?, |word| matches!(word, Word::Filtered(_)))? {
            Word::Filtered(listener) => Ok(Launched { client, namespace, listener: Some(listener) }),
            _ => unreachable!("expect lets only this word through"),
        }
    }

    fn complete_unheard(self) -> Result<Launched, Error> {
        let Self { client, namespace, around, .. } = self;
        expect(talk::hear(client.control(), around.deadline)?, |word| matches!(word, Word::Ready))?;
        let_go(&client, around)?;
        Ok(Launched { client, namespace, listener: None })
    }
}

/// All is there for the client; what comes after that, it need not wait for.
fn let_go(client: &Client, around: &Surroundings<'_>) -> Result<(), Error> {
    let told = talk::say(client.control(), talk::GO)
        .and_then(|()| around.program.get())
        .and_then(|program| talk::say_program(client.control(), program));
    told.map_err(|error| why_not(client.control(), error))
}

/// Why the sandbox listens no more: by its own words, if it left some.
fn why_not(control: BorrowedFd<'_>, error: sys::Error) -> Error {
    while error.errno() == rustix::io::Errno::PIPE {
        match talk::take(control) {
            Ok(Word::Failed(text)) => return Error::Inside(text),
            Ok(Word::NotExecuted(text)) => return Error::Execute(text),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Error::Start(error)
}

fn expect(word: Word, is_it: impl Fn(&Word) -> bool) -> Result<Word, Error> {
    match word {
        word if is_it(&word) => Ok(word),
        Word::Failed(text) => Err(Error::Inside(text)),
        Word::NotExecuted(text) => Err(Error::Execute(text)),
        _ => Err(Error::Ended),
    }
}

fn orders(spec: &Spec, around: &Surroundings<'_>, household: Household) -> Result<(Orders, Descriptors), Error> {
    let Household { owner, init_id, joins, environment: given } = household;
    let environment = environment(spec, given);
    let orders = Orders {
        identity: spec.identity,
        capabilities: spec.capabilities,
        owner,
        init_id,
        mark: (spec.identity == Identity::HostRoot).then(|| around.ids.mark()),
        role: spec.role,
        joins: joins.as_ref().map(Joins::outline),
        process_limits: spec.process_limits,
        argv: argv(spec),
        candidates: candidates(&spec.command[0], &environment),
        environment,
    };
    let dup = |fd: &OwnedFd| sys::call(|| "dup()".into(), fd.try_clone()).map_err(Error::Start);
    let (output_read, output_write) = output_pipe().map_err(Error::Start)?;
    let descriptors = Descriptors { output_read, output_write, ring: dup(around.log)?, joins };
    Ok((orders, descriptors))
}

fn output_pipe() -> sys::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = sys::call(|| "pipe2()".into(), rustix::pipe::pipe_with(PipeFlags::CLOEXEC))?;
    // Only our end: a client may not expect a pipe that does not block.
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

/// Of variables with one name the last counts: ours, then the container's, then the definition's.
fn environment(spec: &Spec, given: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let path = PATH.join(":");
    let fixed = [("PATH", path.as_str()), ("HOME", "/root"), ("USER", "root"), ("LOGNAME", "root"), ("LANG", "C.UTF-8")];
    let fixed = fixed.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    let named = spec.environment.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    fixed.into_iter().chain(given).chain(named).collect::<BTreeMap<_, _>>().into_iter().collect()
}
