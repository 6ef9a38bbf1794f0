//! From a spec to a running client, as seen by the process that mounts.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::mount::MountAttrFlags;
use rustix::pipe::PipeFlags;
use shorefast_sys as sys;
use sys::mount::Attributes;
use sys::namespace::Home;
use sys::process::{Fork, Fresh};

use crate::cgroup::Cgroup;
use crate::child;
use crate::client::Client;
use crate::error::Error;
use crate::files;
use crate::orders::{Descriptors, Orders, SourceKind};
use crate::root;
use crate::spec::{IDS_PER_NAMESPACE, INIT_INSIDE, Identity, Ids, Processes, SOURCE, Spec};
use crate::talk::{self, Word};

/// A sandbox that waits for its orders, set up while the caller still plans. Dropped: gone.
#[derive(Debug)]
pub struct Nest {
    init: sys::process::Child,
    control: OwnedFd,
    processes: Processes,
    taken: bool,
}

/// What the launch gets from its surroundings, in contrast to the plan.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// The image's root filesystem.
    pub rootfs: &'a Path,
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
pub fn prepare(processes: Processes) -> Result<Nest, Error> {
    let (control, theirs) = talk::pair().map_err(Error::Start)?;
    let fresh = match processes {
        Processes::Own => Fresh::PID | Fresh::IPC | Fresh::UTS,
        Processes::Host => Fresh::IPC | Fresh::UTS,
    };
    match sys::process::fork(fresh).map_err(Error::Start)? {
        Fork::Child => {
            drop(control);
            child::run(&theirs, processes)
        }
        Fork::Parent(init) => Ok(Nest { init, control, processes, taken: false }),
    }
}

impl Nest {
    /// Starts the client in it. The result, dropped, ends it.
    pub fn launch(self, spec: &Spec, around: &Surroundings<'_>) -> Result<Client, Error> {
        // Prepared for the usual case; a client that shares the host's processes needs another.
        let nest = if self.processes == spec.processes { self } else { prepare(spec.processes)? };
        let source = spec.source.as_deref().map(Source::open).transpose()?;
        let (orders, descriptors) = orders(spec, around, source.as_ref().map(|source| source.kind))?;
        around.cgroup.admit(nest.init.pid)?;
        talk::say_orders(nest.control.as_fd(), &orders, &descriptors).map_err(Error::Start)?;
        drop(descriptors);
        set_up(nest.into_client(spec, around.ids)?, spec, source, around)
    }

    fn into_client(mut self, spec: &Spec, ids: Ids) -> Result<Client, Error> {
        self.taken = true;
        let dup = |fd: &OwnedFd| {
            let copy = fd.try_clone();
            sys::call(|| "dup()".into(), copy).map_err(Error::Start)
        };
        let init = sys::process::Child { pid: self.init.pid, pidfd: dup(&self.init.pidfd)? };
        Ok(Client::new(init, dup(&self.control)?, spec, ids))
    }
}

impl Drop for Nest {
    fn drop(&mut self) {
        if !self.taken {
            self.init.kill_and_reap();
        }
    }
}

/// Answers the child until the client is being executed.
fn set_up(mut client: Client, spec: &Spec, source: Option<Source>, around: &Surroundings<'_>) -> Result<Client, Error> {
    expect(talk::hear(client.control(), around.deadline)?, |word| matches!(word, Word::Ready))?;
    if spec.identity == Identity::UserNamespace {
        map_ids(client.pid(), around.ids).map_err(Error::Start)?;
    }
    let namespace = sys::namespace::of(client.pid(), "mnt").map_err(Error::Start)?;
    if let Some(source) = source {
        let owners = match spec.identity {
            Identity::UserNamespace => Some(sys::namespace::of(client.pid(), "user").map_err(Error::Start)?),
            Identity::DedicatedUser => None,
        };
        source.show_in(&namespace, owners)?;
    }
    talk::say(client.control(), talk::GO).map_err(Error::Start)?;
    match expect(talk::hear(client.control(), around.deadline)?, |word| matches!(word, Word::Filtered(_)))? {
        Word::Filtered(listener) => client.watched(listener, namespace),
        _ => unreachable!("expect lets only this word through"),
    }
    Ok(client)
}

fn expect(word: Word, is_it: impl Fn(&Word) -> bool) -> Result<Word, Error> {
    match word {
        word if is_it(&word) => Ok(word),
        Word::Failed(text) => Err(Error::Inside(text)),
        Word::NotExecuted(text) => Err(Error::Execute(text)),
        _ => Err(Error::Ended),
    }
}

fn orders(spec: &Spec, around: &Surroundings<'_>, source: Option<SourceKind>) -> Result<(Orders, Descriptors), Error> {
    let path = around.rootfs;
    let fail = |source| Error::Root { path: path.to_owned(), source };
    let image = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let image = sys::call(|| format!("open({path:?})"), image).map_err(fail)?;
    let (entries, trees) = root::image_entries(&image).map_err(fail)?;
    let owner = around.ids.client(spec.identity);
    let init_id = match spec.identity {
        Identity::UserNamespace => INIT_INSIDE,
        Identity::DedicatedUser => around.ids.init(spec.identity),
    };
    let orders = Orders {
        identity: spec.identity,
        owner,
        init_id,
        scratch_bytes: spec.scratch_bytes,
        entries,
        files: files::read(spec, &image, around.ids)?,
        source,
        argv: spec.command.iter().map(|word| word.as_bytes().to_vec()).collect(),
        candidates: candidates(&spec.command[0]),
        environment: environment(spec),
    };
    let dup = |fd: &OwnedFd| sys::call(|| "dup()".into(), fd.try_clone()).map_err(Error::Start);
    let (output_read, output_write) = output_pipe().map_err(Error::Start)?;
    let descriptors = Descriptors { program: dup(around.program)?, output_read, output_write, ring: dup(around.log)?, entries: trees };
    Ok((orders, descriptors))
}

/// A host path for the client to see, held as a detached mount.
struct Source {
    path: PathBuf,
    tree: OwnedFd,
    kind: SourceKind,
}

impl Source {
    fn open(path: &Path) -> Result<Self, Error> {
        let fail = |source| Error::Source { path: path.to_owned(), source };
        let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let place = sys::call(|| format!("open({path:?})"), place).map_err(fail)?;
        let stat = sys::call(|| format!("stat({path:?})"), rustix::fs::fstat(&place)).map_err(fail)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => SourceKind::Directory,
            FileType::RegularFile => SourceKind::File,
            _ => return Err(fail(sys::Error::new(format!("open({path:?})"), rustix::io::Errno::NOTSUP))),
        };
        let tree = sys::mount::detached_copy(place.as_fd(), Path::new("")).map_err(fail)?;
        Ok(Self { path: path.to_owned(), tree, kind })
    }

    fn show_in(self, namespace: &OwnedFd, owners: Option<OwnedFd>) -> Result<(), Error> {
        let Self { path, tree, .. } = self;
        let set = Some(MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV);
        let changed =
            sys::mount::set_attributes(tree.as_fd(), Attributes { set, private: true, owners: owners.as_ref().map(|fd| fd.as_fd()) });
        changed.map_err(|source| match owners {
            Some(_) => Error::OwnersNotMapped { path: path.clone(), source },
            None => Error::Source { path: path.clone(), source },
        })?;
        let fail = |source| Error::Source { path: path.clone(), source };
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

fn candidates(helper: &OsStr) -> Vec<Vec<u8>> {
    if helper.as_bytes().contains(&b'/') {
        return vec![helper.as_bytes().to_vec()];
    }
    PATH.iter().map(|directory| Path::new(directory).join(helper).into_os_string().into_encoded_bytes()).collect()
}

fn environment(spec: &Spec) -> Vec<(Vec<u8>, Vec<u8>)> {
    let path = PATH.join(":");
    let fixed = [("PATH", path.as_str()), ("HOME", "/root"), ("USER", "root"), ("LOGNAME", "root"), ("LANG", "C.UTF-8")];
    let named = spec.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    // Of two with one name the later counts.
    fixed.into_iter().chain(named).map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}
