//! One small file per mount. The kernel is the truth; records add what it does not know.
//!
//! ```text
//! /run/shorefast/starting/SLOT      a mount is being made by the process named in it
//! /run/shorefast/ID.json            a complete mount, written by rename before it is attached
//! /run/shorefast/by-mount/NUMBER    the same file, by the kernel's id of the mount
//! /run/shorefast/ID.log             the client's output and a copy of the record (see sys::ring)
//! /run/shorefast/unreadable/        records that could not be read, set aside by `reconcile`
//! ```
//! What a killed process left behind is in `starting`, so that the next call finds it without
//! reading the records of all live mounts.
//!
//! An id is a slot, by which the sandbox's uids are chosen, and a random nonce: `m1a2b-0f3c5d7e9b11`. A slot is used
//! again, an id never, so what carries an id (a keeper, a control group, a file) cannot be mistaken for
//! another mount's, also after the run directory was lost.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, DirEntryExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, FlockOperation, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use shorefast_image::Digest;
use shorefast_sandbox::spec::{Ids, Processes};
use shorefast_sandbox::{Cgroup, members};
use shorefast_sys as sys;

use crate::definition::OnExit;
use crate::error::Error;
use crate::text;

/// All that is kept of a mount. No options, no environment: nothing that could be a secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub id: String,
    #[serde(with = "text")]
    pub target: PathBuf,
    #[serde(with = "text")]
    pub source: OsString,
    pub fstype: String,
    pub client: String,
    pub image: String,
    /// None for a directory that is used where it is.
    #[serde(default)]
    pub digest: Option<Digest>,
    pub mode: String,
    pub since: u64,
    pub mount: MountId,
    /// The namespace that the mount was attached in, by inode.
    pub namespace: u64,
    /// The sandbox's first process; none for a filesystem that the kernel serves.
    pub init: Option<Process>,
    pub keeper: Option<Process>,
    pub host_processes: bool,
    pub cgroup: Cgroup,
    /// What the plan said, for display only.
    #[serde(default)]
    pub limits: serde_json::Value,
    pub keep_dead: bool,
    /// It needs its client's services as long as it lives.
    #[serde(default)]
    pub uses_services: bool,
    /// Which of them; all, if it does not say (records of older builds).
    #[serde(default)]
    pub services: Vec<String>,
    /// The start of the machine that it belongs to. In that of another one, no id and no process number means anything.
    #[serde(default)]
    pub boot: String,
    /// The sandbox's mount namespace, by inode: proof that a process belongs to it.
    #[serde(default)]
    pub sandbox: Option<u64>,
}

impl Record {
    /// Records of older builds do not say; they are believed.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot.is_empty() || self.boot == sys::process::boot_id()
    }

    /// Whether it needs this service as long as it lives.
    pub fn uses(&self, service: &str) -> bool {
        self.uses_services && (self.services.is_empty() || self.services.iter().any(|one| one == service))
    }
}

/// The kernel's name for a mount, in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountId {
    pub id: u64,
    pub unique: bool,
    pub major: u32,
    pub minor: u32,
}

impl MountId {
    /// Under which its record is found.
    fn key(self) -> String {
        index_key(self.id, self.unique)
    }
}

fn index_key(id: u64, unique: bool) -> String {
    if unique { format!("{id:x}") } else { format!("reusable-{id}") }
}

impl From<sys::mount::Identity> for MountId {
    fn from(identity: sys::mount::Identity) -> Self {
        Self { id: identity.id, unique: identity.unique, major: identity.major, minor: identity.minor }
    }
}

impl From<MountId> for sys::mount::Identity {
    fn from(id: MountId) -> Self {
        Self { id: id.id, unique: id.unique, major: id.major, minor: id.minor }
    }
}

/// A process that cannot be confused with a later one of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    /// In clock ticks since boot.
    pub started: u64,
}

impl Process {
    pub fn of(pid: i32) -> Option<Self> {
        let started = sys::process::start_of(rustix::process::Pid::from_raw(pid)?)?;
        Some(Self { pid, started })
    }

    pub fn own() -> Option<Self> {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// Kills it, and nothing that has its number by now. True: it has ended by the deadline.
    pub fn end(&self, deadline: Instant) -> bool {
        let Some(pid) = rustix::process::Pid::from_raw(self.pid) else { return true };
        let Ok(pidfd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else { return true };
        // Looked at after it is held.
        if !self.is_alive() {
            return true;
        }
        let _ = rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL);
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = rustix::time::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut ended = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut ended, Some(&timeout))).is_ok_and(|ready| ready > 0)
    }

    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Alive, or on its way out: the first process of a sandbox waits there for all others.
    pub fn remains(&self) -> bool {
        let pid = rustix::process::Pid::from_raw(self.pid);
        pid.and_then(sys::process::start_of_remaining) == Some(self.started)
    }
}

/// Somebody else may always be faster, but not so often.
const TRIES: u32 = 100_000;

/// All records of one host.
#[derive(Clone, Debug)]
pub struct Records {
    directory: PathBuf,
}

/// A mount that is being made. Dropped: as if it had never been tried.
#[derive(Debug)]
pub struct Begun<'a> {
    records: &'a Records,
    pub id: String,
    pub ids: Ids,
    /// The image that it will run from.
    pub digest: Option<Digest>,
    pub log: OwnedFd,
    /// Where the last record is found by its mount.
    indexed: RefCell<Option<MountId>>,
    done: bool,
}

/// In `starting/SLOT`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Starting {
    /// Earlier builds named the file so.
    #[serde(default)]
    id: Option<String>,
    owner: Option<Process>,
    #[serde(default)]
    digest: Option<Digest>,
    #[serde(default)]
    boot: String,
    /// What it is for; a service has none.
    #[serde(default)]
    mount: Option<Underway>,
}

/// A mount that is being made, for who wants to see or to end it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Underway {
    /// As the caller named it, made absolute.
    #[serde(with = "text")]
    pub target: PathBuf,
    pub client: String,
    pub image: String,
    pub mode: String,
    pub since: u64,
}

impl Starting {
    fn is_being_made(&self) -> bool {
        let is_now = self.boot.is_empty() || self.boot == sys::process::boot_id();
        is_now && self.owner.is_some_and(|owner| owner.is_alive())
    }
}

/// All that could be read, and what could not.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Complete mounts, oldest first.
    pub records: Vec<Record>,
    pub unreadable: Vec<Unreadable>,
}

/// A file that should be a record, and is none.
#[derive(Clone, Debug)]
pub struct Unreadable {
    pub path: PathBuf,
    pub why: String,
}

impl Records {
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Takes a free id, and with it ids of the host that no other sandbox has.
    pub fn begin(&self, digest: Option<&Digest>, mount: Option<&Underway>) -> Result<Begun<'_>, Error> {
        let owner = Process::own();
        for _ in 0..TRIES {
            let (slot, nonce) = random().map_err(|error| self.error(error))?;
            let (id, ids) = (format!("m{slot:04x}-{nonce:012x}"), Ids::of_slot(slot));
            // Also one that another run directory has, or one that this one has forgotten.
            if members::is_anybody(ids) {
                continue;
            }
            let starting = Starting {
                id: Some(id.clone()),
                owner,
                digest: digest.copied(),
                boot: sys::process::boot_id().to_owned(),
                mount: mount.cloned(),
            };
            let content = serde_json::to_vec(&starting).map_err(|error| self.error(error.into()))?;
            match self.create(&self.starting(&id), &content) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                result => drop(result.map_err(|error| self.error(error))?),
            }
            let log = self.create(&self.log(&id), b"");
            let log = log.inspect_err(|_| drop(fs::remove_file(self.starting(&id)))).map_err(|error| self.error(error))?.into();
            return Ok(Begun { records: self, ids, digest: starting.digest, id, log, indexed: RefCell::default(), done: false });
        }
        Err(self.error(io::Error::new(ErrorKind::AlreadyExists, "no free id was found: too many clients run on this host")))
    }

    /// Where a service with this id has its record.
    pub fn service(&self, id: &str) -> PathBuf {
        self.services().join(format!("{id}.json"))
    }

    pub fn services(&self) -> PathBuf {
        self.directory.join("services")
    }

    /// Whether somebody is making a mount.
    pub fn is_anything_being_made(&self) -> Result<bool, Error> {
        Ok(self.unfinished()?.iter().any(|(_, starting)| starting.as_ref().is_some_and(Starting::is_being_made)))
    }

    pub fn log(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.log"))
    }

    /// Complete mounts, oldest first. One that vanishes while we read is not there, and neither is
    /// one that is still being made.
    pub fn all(&self) -> Result<Vec<Record>, Error> {
        Ok(self.scan()?.records)
    }

    /// The same, with what cannot be read: that spoils nothing but itself.
    pub fn scan(&self) -> Result<Scan, Error> {
        let names = self.names(&self.directory)?;
        let unfinished = self.unfinished()?;
        let is_unfinished = |id: &str| unfinished.iter().any(|(other, _)| other == id);
        let mut scan = Scan::default();
        for id in names.iter().filter_map(|name| name.strip_suffix(".json")).filter(|id| !is_unfinished(id)) {
            match self.get(id) {
                Ok(record) => scan.records.extend(record),
                Err(Error::Record { path, source }) => scan.unreadable.push(Unreadable { path, why: source.to_string() }),
                Err(error) => return Err(error),
            }
        }
        scan.records.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
        Ok(scan)
    }

    /// The record of a mount of this namespace, found without a look at any other.
    pub fn by_mount(&self, id: u64, unique: bool) -> Option<Record> {
        let bytes = fs::read(self.indexed(&index_key(id, unique))).ok()?;
        let record: Record = serde_json::from_slice(&bytes).ok()?;
        ((record.mount.id, record.mount.unique) == (id, unique) && record.is_of_this_boot()).then_some(record)
    }

    /// Removes what is left of records that are gone.
    pub fn remove_strays(&self) -> Result<(), Error> {
        for left in self.stray_logs()?.into_iter().chain(self.stray_entries()?) {
            let _ = fs::remove_file(left);
        }
        self.remove_empty_directories();
        Ok(())
    }

    /// Logs that belong to no mount.
    fn stray_logs(&self) -> Result<Vec<PathBuf>, Error> {
        // Logs first: one that is made meanwhile is not among them.
        let names = self.names(&self.directory)?;
        let (unfinished, services) = (self.unfinished()?, self.names(&self.services())?);
        let records: HashSet<_> = names.iter().chain(&services).filter_map(|name| name.strip_suffix(".json")).collect();
        let is_known = |id: &str| records.contains(id) || self.path(id).exists() || unfinished.iter().any(|(other, _)| other == id);
        let known = names.iter().filter_map(|name| name.strip_suffix(".log")).filter(|id| !is_known(id));
        Ok(known.map(|id| self.log(id)).collect())
    }

    /// Entries of the index whose record is gone: they are hard links to it.
    fn stray_entries(&self) -> Result<Vec<PathBuf>, Error> {
        let files = |directory: &Path| match fs::read_dir(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            entries => entries.and_then(|entries| entries.collect::<io::Result<Vec<_>>>()).map_err(|error| self.error(error)),
        };
        // The index first: a record is in its place before it is in the index.
        let index = files(&self.directory.join("by-mount"))?;
        let records: HashSet<_> = files(&self.directory)?.iter().map(DirEntryExt::ino).collect();
        Ok(index.iter().filter(|entry| !records.contains(&entry.ino())).map(fs::DirEntry::path).collect())
    }

    /// Puts an unreadable record where it disturbs nobody, for whoever wants to look at it.
    pub fn set_aside(&self, unreadable: &Unreadable) -> io::Result<PathBuf> {
        let place = self.directory.join("unreadable");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&place)?;
        let aside = place.join(unreadable.path.file_name().unwrap_or_default());
        fs::rename(&unreadable.path, &aside)?;
        Ok(aside)
    }

    /// What was set aside before.
    pub fn aside(&self) -> Vec<PathBuf> {
        let place = self.directory.join("unreadable");
        self.names(&place).unwrap_or_default().into_iter().map(|name| place.join(name)).collect()
    }

    /// Held by whoever unmounts this mount. `None`: the log is gone, or somebody else has it for longer than we can wait.
    pub fn lock(&self, id: &str, deadline: Instant) -> Option<fs::File> {
        let file = fs::File::open(self.log(id)).ok()?;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Some(file),
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(std::time::Duration::from_millis(1)),
                Err(_) => return None,
            }
        }
    }

    /// The ids of a few complete mounts, others each time.
    pub fn some(&self, count: usize) -> Result<Vec<String>, Error> {
        let names = self.names(&self.directory)?;
        let mut ids: Vec<_> = names.iter().filter_map(|name| name.strip_suffix(".json")).map(str::to_owned).collect();
        if ids.len() > count {
            let first = usize::from(random().map_err(|error| self.error(error))?.0) % ids.len();
            ids.rotate_left(first);
            ids.truncate(count);
        }
        Ok(ids)
    }

    pub fn get(&self, id: &str) -> Result<Option<Record>, Error> {
        let path = self.path(id);
        match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Record { path, source }),
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| Error::Record { path, source: error.into() }),
        }
    }

    /// Mounts whose maker died before it was done.
    pub fn abandoned(&self) -> Result<Vec<String>, Error> {
        let dead = |(_, starting): &(String, Option<Starting>)| !starting.as_ref().is_some_and(Starting::is_being_made);
        Ok(self.unfinished()?.into_iter().filter(dead).map(|(id, _)| id).collect())
    }

    /// What is being made, by id. `None`: the file says nothing that can be understood.
    fn unfinished(&self) -> Result<Vec<(String, Option<Starting>)>, Error> {
        let names = self.names(&self.directory.join("starting"))?;
        let read = |name: String| match fs::read(self.starting(&name)) {
            // Gone meanwhile: its maker is done, one way or the other.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            bytes => {
                let starting: Option<Starting> = bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
                Some((starting.as_ref().and_then(|starting| starting.id.clone()).unwrap_or(name), starting))
            }
        };
        Ok(names.into_iter().filter_map(read).collect())
    }

    /// Who makes or made the mount that is not complete, in this start of the machine.
    pub fn maker(&self, id: &str) -> Option<Process> {
        let starting = self.begun(id)?;
        starting.owner.filter(|_| starting.boot.is_empty() || starting.boot == sys::process::boot_id())
    }

    /// Whether the mount is being made, or was never completed.
    pub fn is_unfinished(&self, id: &str) -> bool {
        self.starting(id).exists()
    }

    /// Mounts that somebody is making, with the id that each will have and its maker.
    pub fn underway(&self) -> Result<Vec<(String, Underway, Process)>, Error> {
        let made = |(id, starting): (String, Option<Starting>)| {
            let starting = starting.filter(Starting::is_being_made)?;
            Some((id, starting.mount?, starting.owner?))
        };
        Ok(self.unfinished()?.into_iter().filter_map(made).collect())
    }

    /// The images of mounts that are not complete, by id.
    pub fn images_of_unfinished(&self) -> Result<Vec<(String, Digest)>, Error> {
        Ok(self.unfinished()?.into_iter().filter_map(|(id, starting)| Some((id, starting?.digest?))).collect())
    }

    fn begun(&self, id: &str) -> Option<Starting> {
        let starting: Starting = serde_json::from_slice(&fs::read(self.starting(id)).ok()?).ok()?;
        // Another one may have the slot by now.
        starting.id.as_ref().is_none_or(|other| other == id).then_some(starting)
    }

    /// Removes all files of a mount.
    pub fn remove(&self, id: &str) {
        if let Ok(Some(record)) = self.get(id) {
            self.remove_from_index(&record.id, record.mount);
        }
        for path in [self.path(id), self.log(id), self.new_path(id)] {
            let _ = fs::remove_file(path);
        }
        self.adopt(id);
        self.remove_empty_directories();
    }

    /// The mount is complete: nobody is making it any more.
    pub fn adopt(&self, id: &str) {
        if self.begun(id).is_some() || !id.contains('-') {
            let _ = fs::remove_file(self.starting(id));
        }
    }

    fn remove_from_index(&self, id: &str, mount: MountId) {
        // An id that can come back may be another mount's by now.
        if mount.unique || self.by_mount(mount.id, false).is_some_and(|record| record.id == id) {
            let _ = fs::remove_file(self.indexed(&mount.key()));
        }
    }

    /// Writes a record again that was lost.
    pub fn restore(&self, record: &Record, log: &[u8]) -> io::Result<()> {
        match self.create(&self.log(&record.id), log) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => self.commit(record),
        }
    }

    fn remove_empty_directories(&self) {
        // Only when empty, and made again when needed. Each is tried: another process may have
        // removed the inner one already.
        let _ = fs::remove_dir(self.directory.join("starting"));
        let _ = fs::remove_dir(self.directory.join("by-mount"));
        let _ = fs::remove_dir(self.services());
        let _ = fs::remove_dir(&self.directory);
    }

    fn commit(&self, record: &Record) -> io::Result<()> {
        let new = self.new_path(&record.id);
        let file = self.create(&new, &serde_json::to_vec(record)?)?;
        fs::rename(&new, self.path(&record.id))?;
        self.index(record.mount, &file)?;
        if is_on_disk(&file) {
            fs::File::open(&self.directory)?.sync_all()?;
        }
        Ok(())
    }

    /// Lets a record be found by its mount. What is there has to be of a mount that is gone: the kernel gives no id twice at a time.
    fn index(&self, mount: MountId, record: &fs::File) -> io::Result<()> {
        let path = self.indexed(&mount.key());
        for _ in 0..TRIES {
            match rustix::fs::linkat(record, "", CWD, &path, AtFlags::EMPTY_PATH) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => drop(fs::remove_file(&path)),
                Err(Errno::NOENT) => self.make_directory("by-mount")?,
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    fn indexed(&self, key: &str) -> PathBuf {
        self.directory.join("by-mount").join(key)
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.json"))
    }

    fn new_path(&self, id: &str) -> PathBuf {
        self.directory.join("starting").join(format!(".{id}.json"))
    }

    fn starting(&self, id: &str) -> PathBuf {
        let slot = id.split_once('-').map_or(id, |(slot, _)| slot);
        self.directory.join("starting").join(slot)
    }

    /// May vanish again at any moment, for being empty.
    fn make_directory(&self, name: &str) -> io::Result<()> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(self.directory.join(name));
        made.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
    }

    /// A new file, readable by root only. Its directory may just have been removed for being empty.
    fn create(&self, path: &Path, content: &[u8]) -> io::Result<fs::File> {
        for _ in 0..TRIES {
            match create_complete(path, content) {
                Err(error) if error.kind() == ErrorKind::NotFound => self.make_directory("starting")?,
                result => return result,
            }
        }
        Err(ErrorKind::NotFound.into())
    }

    fn names(&self, directory: &Path) -> Result<Vec<String>, Error> {
        let unreadable = |source| Error::Record { path: directory.to_owned(), source };
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(unreadable)?,
        };
        let names: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned())).collect();
        Ok(names.map_err(unreadable)?.into_iter().filter(|name| !name.starts_with('.')).collect())
    }

    fn error(&self, source: io::Error) -> Error {
        Error::Record { path: self.directory.clone(), source }
    }
}

impl Begun<'_> {
    /// From here on, whoever finds the record can clean up or live with the mount.
    pub fn commit(&self, record: &Record) -> Result<(), Error> {
        if let Some(before) = self.indexed.replace(Some(record.mount)).filter(|before| *before != record.mount) {
            self.records.remove_from_index(&self.id, before);
        }
        let copied = serde_json::to_vec(record).map_err(io::Error::from).and_then(|note| sys::ring::write_note(&self.log, &note));
        copied.and_then(|()| self.records.commit(record)).map_err(|source| self.records.error(source))
    }

    /// The mount is complete, and its maker no longer needed.
    pub fn finish(mut self) {
        self.done = true;
        self.records.adopt(&self.id);
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.records.remove(&self.id);
        }
    }
}

/// The file appears with its content or not at all, whenever we are killed.
fn create_complete(path: &Path, content: &[u8]) -> io::Result<fs::File> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mut file = fs::File::from(rustix::fs::open(directory, flags, rustix::fs::Mode::from_raw_mode(0o600))?);
    file.write_all(content)?;
    if !content.is_empty() && is_on_disk(&file) {
        file.sync_data()?;
    }
    rustix::fs::linkat(&file, "", CWD, path, AtFlags::EMPTY_PATH)?;
    Ok(file)
}

/// Whether a power cut would leave something of it. A run directory is in memory nearly everywhere.
fn is_on_disk(file: &fs::File) -> bool {
    const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
    rustix::fs::fstatfs(file).is_ok_and(|filesystem| !IN_MEMORY.contains(&(filesystem.f_type as u32)))
}

/// The ids that belong to a record's name.
pub fn ids_of(id: &str) -> Option<Ids> {
    let (slot, nonce) = id.split_once('-').map_or((id, None), |(slot, nonce)| (slot, Some(nonce)));
    let digits = slot.strip_prefix('m').filter(|digits| digits.len() == 4)?;
    let slot = u16::from_str_radix(digits, 16).ok().filter(|slot| *slot < Ids::SLOTS)?;
    match nonce {
        Some(nonce) => u64::from_str_radix(nonce, 16).is_ok().then(|| Ids::of_slot(slot)),
        None => Some(Ids::of_slot_before(slot)),
    }
}

fn holds_fuse(pid: i32) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    descriptors.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.ends_with("dev/fuse")))
}

/// A slot and a nonce.
fn random() -> io::Result<(u16, u64)> {
    loop {
        let mut bytes = [0u8; 8];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let bits = u64::from_ne_bytes(bytes);
        let slot = (bits & 0x7fff) as u16;
        if slot < Ids::SLOTS {
            return Ok((slot, bits >> 16));
        }
    }
}

impl Record {
    /// What serves the mount: of the processes that the helper left to the sandbox's first one,
    /// that which holds the FUSE device.
    pub fn daemon(&self) -> Option<Process> {
        let init = self.init.filter(Process::is_alive)?.pid;
        let children = fs::read_to_string(format!("/proc/{init}/task/{init}/children")).ok()?;
        let children: Vec<i32> = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        let serving = children.iter().copied().find(|pid| holds_fuse(*pid));
        serving.or_else(|| children.first().copied()).and_then(Process::of)
    }

    pub fn keeps_dead(on_exit: OnExit) -> bool {
        on_exit == OnExit::Keep
    }

    pub fn shares_processes(processes: Processes) -> bool {
        processes == Processes::Host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_and_dropped_never_was() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::at(directory.path().join("run"));
        drop(records.begin(None, None).unwrap());
        assert!(!directory.path().join("run").exists());
    }

    #[test]
    fn a_live_maker_is_not_disturbed_and_a_dead_one_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::at(directory.path());
        let begun = records.begin(None, None).unwrap();
        assert_eq!(records.abandoned().unwrap(), [""; 0]);
        let dead = Starting {
            id: Some(begun.id.clone()),
            owner: Some(Process { pid: 1, started: 1 << 60 }),
            digest: None,
            boot: String::new(),
            mount: None,
        };
        fs::write(records.starting(&begun.id), serde_json::to_vec(&dead).unwrap()).unwrap();
        assert_eq!(records.abandoned().unwrap(), std::slice::from_ref(&begun.id));
    }

    #[test]
    fn an_id_names_its_slot() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::at(directory.path());
        let begun = records.begin(None, None).unwrap();
        assert_eq!(ids_of(&begun.id), Some(begun.ids));
        for id in ["", "m", "x0001", "mffff", "m0001.json", "../m0001", "m1-0", "m0001-", "m0001-x", "m00011-0"] {
            assert_eq!(ids_of(id), None, "{id}");
        }
        // Of an earlier build.
        assert_eq!(ids_of("m0001"), Some(Ids::of_slot_before(1)));
    }

    #[test]
    fn this_process_is_alive() {
        assert!(Process::own().unwrap().is_alive());
        assert!(!Process { started: 1, ..Process::own().unwrap() }.is_alive());
    }
}
