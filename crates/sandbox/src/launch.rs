//! From a spec to a running client, as seen by the process that mounts.

use std::ffi::{CString, OsStr};
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
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
use crate::child::{Child, OutputPipe};
use crate::client::Client;
use crate::error::Error;
use crate::root::{ReadFile, Root, SourceKind};
use crate::spec::{Content, IDS_PER_NAMESPACE, Identity, Ids, Processes, SOURCE, Spec};
use crate::talk::{self, Word};

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

/// Starts the client. The result, dropped, ends it.
pub fn launch(spec: &Spec, around: &Surroundings<'_>) -> Result<Client, Error> {
    let image = open_root(around.rootfs)?;
    let source = spec.source.as_deref().map(open_source).transpose()?;
    let files = read_files(spec, &image, around.ids)?;
    let (ours, theirs) = talk::pair().map_err(Error::Start)?;
    let child = Child {
        control: theirs,
        cgroup: around.cgroup.entrances()?,
        root: Root {
            image: &image,
            files: &files,
            scratch_bytes: spec.scratch_bytes,
            source: source.as_ref().map(|source| source.kind),
            owner: around.ids.client(spec.identity),
        },
        identity: spec.identity,
        processes: spec.processes,
        ids: around.ids,
        program: around.program,
        output: output_pipe()?,
        ring: around.log,
        argv: c_strings(spec.command.iter().map(|text| text.as_os_str()))?,
        candidates: candidates(&spec.command[0])?,
        environment: environment(spec)?,
    };
    let fresh = match spec.processes {
        Processes::Own => Fresh::PID | Fresh::IPC | Fresh::UTS,
        Processes::Host => Fresh::IPC | Fresh::UTS,
    };
    let init = match sys::process::fork(fresh).map_err(Error::Start)? {
        Fork::Child => {
            drop(ours);
            child.run()
        }
        Fork::Parent(init) => init,
    };
    drop(child);
    let client = Client::new(init, ours, spec, around.ids)?;
    set_up(client, spec, source, around)
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

fn open_root(path: &Path) -> Result<OwnedFd, Error> {
    let open = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    sys::call(|| format!("open({path:?})"), open).map_err(|source| Error::Root { path: path.to_owned(), source })
}

/// A host path for the client to see, held as a detached mount.
struct Source {
    path: PathBuf,
    tree: OwnedFd,
    kind: SourceKind,
}

fn open_source(path: &Path) -> Result<Source, Error> {
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
    Ok(Source { path: path.to_owned(), tree, kind })
}

impl Source {
    fn show_in(self, namespace: &OwnedFd, owners: Option<OwnedFd>) -> Result<(), Error> {
        let set = Some(MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV);
        let path = self.path.clone();
        if let Some(owners) = &owners {
            let attributes = Attributes { set, private: true, owners: Some(owners.as_fd()) };
            sys::mount::set_attributes(self.tree.as_fd(), attributes)
                .map_err(|source| Error::OwnersNotMapped { path: path.clone(), source })?;
        } else {
            let attributes = Attributes { set, private: true, owners: None };
            sys::mount::set_attributes(self.tree.as_fd(), attributes).map_err(|source| Error::Source { path: path.clone(), source })?;
        }
        let fail = |source| Error::Source { path: path.clone(), source };
        let home = Home::here().map_err(fail)?;
        let _visit = home.visit(namespace.as_fd()).map_err(fail)?;
        sys::mount::attach(self.tree.as_fd(), CWD, Path::new(SOURCE)).map_err(fail)
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

/// Nobody needs more in a key or a password file.
const FILE_LIMIT: u64 = 1 << 20;

fn read_files(spec: &Spec, image: &OwnedFd, ids: Ids) -> Result<Vec<ReadFile>, Error> {
    let mut files = Vec::new();
    for file in &spec.files {
        let (content, mode) = match &file.content {
            Content::Text(text) => (Some(text.clone().into_bytes()), 0o600),
            Content::Host(path) => (Some(read_host_file(path)?), 0o400),
            Content::HostIfThere(path) => (read_host_file(path).ok(), 0o644),
        };
        if let Some(content) = content {
            files.push(ReadFile { inside: file.inside.clone(), content, mode, in_ours: file.is_ours() });
        }
    }
    files.extend(users(image, spec.identity, ids));
    Ok(files)
}

fn read_host_file(path: &Path) -> Result<Vec<u8>, Error> {
    let fail = |error: std::io::Error| {
        let errno = rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
        Error::File { path: path.to_owned(), source: sys::Error::new(format!("read({path:?})"), errno) }
    };
    // NONBLOCK: a FIFO must not make us wait.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| fail(errno.into()))?);
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(fail(rustix::io::Errno::INVAL.into()));
    }
    if metadata.len() > FILE_LIMIT {
        return Err(fail(rustix::io::Errno::FBIG.into()));
    }
    let mut content = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, FILE_LIMIT), &mut content).map_err(fail)?;
    Ok(content)
}

/// The image's users and groups plus the one that the client is, if it lacks that: ssh and others
/// refuse to work for a user without a name. Images made straight from packages have none at all.
fn users(image: &OwnedFd, identity: Identity, ids: Ids) -> Vec<ReadFile> {
    let id = ids.dedicated();
    let rows = [
        ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", format!("shorefast:x:{id}:{id}:mount client:/root:/bin/sh\n")),
        ("etc/group", "root:x:0:\nnogroup:x:65534:\n", format!("shorefast:x:{id}:\n")),
    ];
    let mut files = Vec::new();
    for (path, if_missing, dedicated) in rows {
        let mut content = read_image_file(image, path);
        let is_missing = content.is_empty();
        if is_missing {
            content.extend(if_missing.bytes());
        } else if content.last() != Some(&b'\n') {
            content.push(b'\n');
        }
        if identity == Identity::DedicatedUser {
            content.extend(dedicated.bytes());
        }
        if is_missing || identity == Identity::DedicatedUser {
            files.push(ReadFile { inside: Path::new("/").join(path), content, mode: 0o644, in_ours: false });
        }
    }
    files
}

/// Empty if it is not there.
fn read_image_file(image: &OwnedFd, path: &str) -> Vec<u8> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = rustix::fs::openat2(image, path, flags, Mode::empty(), rustix::fs::ResolveFlags::IN_ROOT);
    let mut content = Vec::new();
    if let Ok(file) = open {
        let _ = std::io::Read::read_to_end(&mut std::io::Read::take(fs::File::from(file), FILE_LIMIT), &mut content);
    }
    content
}

fn output_pipe() -> Result<OutputPipe, Error> {
    let pipe = sys::call(|| "pipe2()".into(), rustix::pipe::pipe_with(PipeFlags::CLOEXEC)).map_err(Error::Start)?;
    let (read, write) = pipe;
    // Only our end: a client may not expect a pipe that does not block.
    sys::call(|| "fcntl(O_NONBLOCK)".into(), rustix::fs::fcntl_setfl(&read, OFlags::NONBLOCK)).map_err(Error::Start)?;
    Ok(OutputPipe { read, write })
}

fn candidates(helper: &OsStr) -> Result<Vec<CString>, Error> {
    if Path::new(helper).components().count() > 1 {
        return c_strings([helper]);
    }
    let paths: Vec<PathBuf> = PATH.iter().map(|directory| Path::new(directory).join(helper)).collect();
    c_strings(paths.iter().map(|path| path.as_os_str()))
}

fn environment(spec: &Spec) -> Result<Vec<CString>, Error> {
    let path = format!("PATH={}", PATH.join(":"));
    let fixed = [path, "HOME=/root".into(), "USER=root".into(), "LOGNAME=root".into(), "LANG=C.UTF-8".into()];
    let named = spec.environment.iter().map(|(name, value)| format!("{name}={value}"));
    let all: Vec<String> = fixed
        .into_iter()
        .filter(|line| !spec.environment.iter().any(|(name, _)| line.starts_with(&format!("{name}="))))
        .chain(named)
        .collect();
    c_strings(all.iter().map(OsStr::new))
}

fn c_strings<'a>(texts: impl IntoIterator<Item = &'a OsStr>) -> Result<Vec<CString>, Error> {
    texts.into_iter().map(|text| sys::c_string(text).map_err(Error::Start)).collect()
}
