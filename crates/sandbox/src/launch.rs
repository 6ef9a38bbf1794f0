//! From a spec to a running client, as seen by the process that mounts.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags};
use rustix::mount::MountAttrFlags;
use rustix::pipe::PipeFlags;
use shorefast_sys as sys;
use sys::errand;
use sys::mount::Attributes;
use sys::namespace::Home;
use sys::process::{Child, Fork, Fresh};

use crate::cgroup::Cgroup;
use crate::child;
use crate::client::Client;
use crate::container::Container;
use crate::error::Error;
use crate::first::FirstProcess;
use crate::furnish::{self, Household, Opened};
use crate::orders::{Descriptors, Furniture, Orders, PlaceKind, ShownPlace, SourceKind};
use crate::spec::{IDS_PER_NAMESPACE, Identity, Ids, Processes, Rights, SOURCE, Shape, Shown, Spec, Thing};
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
    pub program: &'a OwnedFd,
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
    let life = move |(control, small): &(OwnedFd, Option<OwnedFd>)| child::run(control, shape, Furniture::Full, small.as_ref());
    let first = FirstProcess::ours(sys::offshoot::start(fresh, holdings, life).map_err(Error::Start)?);
    // With a thread beside us, we would have to stay where it is.
    sys::namespace::own_directories().map_err(Error::Start)?;
    Ok(Nest { first, control, shape })
}

/// The same in a running container: in a pid namespace below the container's, so that its end is theirs, and ours ends no
/// process of the container.
pub fn prepare_in(container: &Container, deadline: Instant) -> Result<Nest, Error> {
    let (control, theirs) = talk::pair().map_err(Error::Start)?;
    // Two who talk: what the first process says may be there before the midwife's word.
    let (of_midwife, to_midwife) = talk::pair().map_err(Error::Start)?;
    let small_namespace = sys::namespace::small_mount_namespace();
    let midwife = {
        let _there = sys::namespace::children_in(container.processes.as_fd()).map_err(Error::Start)?;
        match sys::process::fork(Fresh::empty()).map_err(Error::Start)? {
            Fork::Child => {
                drop((control, of_midwife));
                child::run_in(&theirs, &to_midwife, container, small_namespace.as_ref())
            }
            Fork::Parent(midwife) => midwife,
        }
    };
    drop((theirs, to_midwife));
    let born = talk::hear(of_midwife.as_fd(), deadline);
    midwife.kill_and_reap();
    match expect(born?, |word| matches!(word, Word::Born(_)))? {
        Word::Born(pidfd) => {
            let pid = sys::process::pid_of(pidfd.as_fd()).map_err(Error::Start)?;
            Ok(Nest { first: FirstProcess::of_container(Child { pid, pidfd }), control, shape: Shape::USUAL })
        }
        _ => unreachable!("expect lets only this word through"),
    }
}

impl Nest {
    /// Gives it the files that the client will see: it puts them up while the caller goes on.
    pub fn furnish<'a>(self, spec: &Spec, root: Root<'a>) -> Result<Furnished<'a>, Error> {
        // Prepared for the usual case; a client that shares more with the host needs another.
        let nest = if self.shape == spec.shape() { self } else { prepare(spec.shape())? };
        let (opened, entries, trees) = furnish::open(root, nest.shape.rights)?;
        talk::say_entries(nest.control.as_fd(), &entries, &trees).map_err(|error| nest.why_not(error))?;
        Ok(Furnished { nest, root, opened })
    }

    /// Why it listens no more: by its own words, if it left some.
    fn why_not(&self, error: sys::Error) -> Error {
        while error.errno() == rustix::io::Errno::PIPE {
            match talk::take(self.control.as_fd()) {
                Ok(Word::Failed(text)) => return Error::Inside(text),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        Error::Start(error)
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
    opened: Opened<'a>,
}

impl<'a> Furnished<'a> {
    /// For another nest.
    pub fn files(&self) -> Root<'a> {
        self.root
    }

    /// Tells it what to become. The result, dropped, ends it.
    pub fn launch(self, spec: &'a Spec, around: &'a Surroundings<'a>) -> Result<Launching<'a>, Error> {
        let Self { nest, opened, .. } = self;
        let mut source = spec.source.as_deref().map(|path| Source::open(path, around.deadline)).transpose()?;
        let household = opened.household(spec, around.ids, around.deadline)?;
        let (orders, mut descriptors) = orders(spec, around, household, source.as_ref().map(|source| source.kind))?;
        match spec.identity {
            // Restricted once it is attached.
            Identity::HostRoot => descriptors.source = source.take().map(|source| source.tree),
            Identity::UserNamespace => {}
            Identity::DedicatedUser | Identity::ContainerRoot if descriptors.users.is_some() => {}
            Identity::DedicatedUser | Identity::ContainerRoot => {
                descriptors.source = source.take().map(|source| source.ready(None)).transpose()?;
            }
        }
        around.cgroup.admit(nest.first.child()?.pid)?;
        nest.first.come_back()?;
        talk::say_orders(nest.control.as_fd(), &orders, &descriptors).map_err(|error| nest.why_not(error))?;
        drop(descriptors);
        let client = nest.into_client(spec, around.ids)?;
        match expect(talk::hear(client.control(), around.deadline)?, |word| matches!(word, Word::Standing(_)))? {
            Word::Standing(namespace) => Ok(Launching { client, namespace, source, spec, around, joins_users: opened.joins_users() }),
            _ => unreachable!("expect lets only this word through"),
        }
    }
}

/// A sandbox that stands and is being filled. Dropped: gone.
#[derive(Debug)]
pub struct Launching<'a> {
    client: Client,
    namespace: OwnedFd,
    source: Option<Source>,
    spec: &'a Spec,
    around: &'a Surroundings<'a>,
    joins_users: bool,
}

impl Launching<'_> {
    /// The sandbox, in which the client does not run yet.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The sandbox's mount namespace.
    pub fn namespace(&self) -> &OwnedFd {
        &self.namespace
    }

    /// Waits until the client is being executed. With it comes what hears its calls.
    pub fn complete(self) -> Result<(Client, OwnedFd), Error> {
        let Self { client, namespace, source, spec, around, joins_users } = self;
        if spec.identity == Identity::UserNamespace || joins_users {
            expect(talk::hear(client.control(), around.deadline)?, |word| matches!(word, Word::Ready))?;
            if spec.identity == Identity::UserNamespace {
                map_ids(client.pid(), around.ids).map_err(Error::Start)?;
            }
            if let Some(source) = source {
                source.show_in(&namespace, client.pid())?;
            }
            talk::say(client.control(), talk::GO).map_err(Error::Start)?;
        }
        match expect(talk::hear(client.control(), around.deadline)?, |word| matches!(word, Word::Filtered(_)))? {
            Word::Filtered(listener) => Ok((client, listener)),
            _ => unreachable!("expect lets only this word through"),
        }
    }

    /// The same for a client that nobody has to hear.
    pub fn complete_unheard(self) -> Result<Client, Error> {
        let Self { client, around, .. } = self;
        expect(talk::hear(client.control(), around.deadline)?, |word| matches!(word, Word::Ready))?;
        talk::say(client.control(), talk::GO).map_err(Error::Start)?;
        Ok(client)
    }
}

fn expect(word: Word, is_it: impl Fn(&Word) -> bool) -> Result<Word, Error> {
    match word {
        word if is_it(&word) => Ok(word),
        Word::Failed(text) => Err(Error::Inside(text)),
        Word::NotExecuted(text) => Err(Error::Execute(text)),
        _ => Err(Error::Ended),
    }
}

fn orders(
    spec: &Spec,
    around: &Surroundings<'_>,
    household: Household,
    source: Option<SourceKind>,
) -> Result<(Orders, Descriptors), Error> {
    let Household { files, owner, init_id, users, environment: given } = household;
    let environment = environment(spec, given);
    let orders = Orders {
        identity: spec.identity,
        capabilities: spec.capabilities,
        owner,
        init_id,
        mark: (spec.identity == Identity::HostRoot).then(|| around.ids.mark()),
        scratch_bytes: spec.scratch_bytes,
        files,
        source,
        shown: spec
            .shown
            .iter()
            .map(|shown| ShownPlace { inside: shown.inside.as_os_str().as_bytes().to_vec(), kind: place_kind(&shown.what) })
            .collect(),
        stand_ins: spec.stand_ins.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect(),
        role: spec.role,
        joins_users: users.is_some(),
        argv: argv(spec),
        candidates: candidates(&spec.command[0], &environment),
        environment,
    };
    let dup = |fd: &OwnedFd| sys::call(|| "dup()".into(), fd.try_clone()).map_err(Error::Start);
    let (output_read, output_write) = output_pipe().map_err(Error::Start)?;
    let shown = spec.shown.iter().map(shown_tree).collect::<Result<_, _>>()?;
    let (program, ring) = (dup(around.program)?, dup(around.log)?);
    let descriptors = Descriptors { program, output_read, output_write, ring, source: None, shown, users };
    Ok((orders, descriptors))
}

fn place_kind(thing: &Thing) -> PlaceKind {
    match thing {
        Thing::Directory(_) | Thing::RpcPipefs => PlaceKind::Directory,
        Thing::Socket(_) => PlaceKind::File,
    }
}

fn shown_tree(shown: &Shown) -> Result<OwnedFd, Error> {
    let set = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let path = match &shown.what {
        Thing::Directory(path) | Thing::Socket(path) => path,
        Thing::RpcPipefs => return sys::mount::new_filesystem("rpc_pipefs", &[], set).map_err(Error::RpcPipefs),
    };
    let fail = |source| Error::Source { path: path.clone(), source };
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let place = sys::call(|| format!("open({path:?})"), place).map_err(fail)?;
    let tree = sys::mount::detached_copy(place.as_fd(), Path::new("")).map_err(fail)?;
    sys::mount::set_attributes(tree.as_fd(), Attributes { set: Some(set), private: true, ..Attributes::default() }).map_err(fail)?;
    Ok(tree)
}

/// A host path for the client to see, held as a detached mount.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    tree: OwnedFd,
    kind: SourceKind,
}

impl Source {
    /// It may be on anybody's filesystem, whose server may be dead.
    fn open(path: &Path, deadline: Instant) -> Result<Self, Error> {
        let fail = |source| Error::Source { path: path.to_owned(), source };
        let place = errand::open(path, OFlags::PATH, deadline).or_timed_out(|| format!("open({path:?})")).map_err(fail)?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = sys::call(|| format!("stat({path:?})"), rustix::fs::statx(&place, c"", flags, StatxFlags::TYPE)).map_err(fail)?;
        let kind = match FileType::from_raw_mode(stat.stx_mode.into()) {
            FileType::Directory => SourceKind::Directory,
            FileType::RegularFile => SourceKind::File,
            _ => return Err(fail(sys::Error::new(format!("open({path:?})"), rustix::io::Errno::NOTSUP))),
        };
        let tree = sys::mount::detached_copy(place.as_fd(), Path::new("")).map_err(fail)?;
        Ok(Self { path: path.to_owned(), tree, kind })
    }

    /// Ready to be attached, its owners shown as `owners`' user namespace sees them.
    fn ready(self, owners: Option<OwnedFd>) -> Result<OwnedFd, Error> {
        let Self { path, tree, .. } = self;
        let set = Some(MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV);
        let attributes = Attributes { set, private: true, owners: owners.as_ref().map(|fd| fd.as_fd()) };
        match (sys::mount::set_attributes(tree.as_fd(), attributes), owners) {
            (Ok(()), _) => Ok(tree),
            (Err(source), Some(_)) => Err(Error::OwnersNotMapped { path, source }),
            (Err(source), None) => Err(Error::Source { path, source }),
        }
    }

    /// For a sandbox that stands in its user namespace, where it can attach nothing itself.
    fn show_in(self, namespace: &OwnedFd, sandbox: rustix::process::Pid) -> Result<(), Error> {
        let path = self.path.clone();
        let fail = |source| Error::Source { path: path.clone(), source };
        let tree = self.ready(Some(sys::namespace::of(sandbox, "user").map_err(fail)?))?;
        let home = Home::here().map_err(fail)?;
        let _visit = home.visit(namespace.as_fd()).map_err(fail)?;
        sys::mount::attach(tree.as_fd(), CWD, Path::new(SOURCE)).map_err(fail)
    }
}

fn map_ids(pid: rustix::process::Pid, ids: Ids) -> sys::Result<()> {
    for map in ["uid_map", "gid_map"] {
        let path = format!("/proc/{}/{map}", pid.as_raw_nonzero());
        let line = format!("0 {} {IDS_PER_NAMESPACE}\n", ids.base());
        sys::call(|| format!("write({path:?})"), fs::write(&path, line))?;
    }
    Ok(())
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
