//! One small file per mount. The kernel is the truth; records add what it does not know.
//!
//! ```text
//! /run/shorefast/starting/ID    a mount is being made by the process named in it
//! /run/shorefast/ID.json        a complete mount, written by rename before it is attached
//! /run/shorefast/ID.log         the client's output (see sys::ring)
//! ```
//! What a killed process left behind is in `starting`, so that the next call finds it without
//! reading the records of all live mounts.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags};
use serde::{Deserialize, Serialize};
use shorefast_image::Digest;
use shorefast_sandbox::Cgroup;
use shorefast_sandbox::spec::{Ids, Processes};
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
    pub keep_dead: bool,
    /// It needs its client's services as long as it lives.
    #[serde(default)]
    pub uses_services: bool,
    /// Which of them; all, if it does not say (records of older builds).
    #[serde(default)]
    pub services: Vec<String>,
}

impl Record {
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

    /// Kills it, and nothing that has its number by now.
    pub fn end(&self) {
        let Some(pid) = rustix::process::Pid::from_raw(self.pid) else { return };
        if let Ok(pidfd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
            && self.is_alive()
        {
            let _ = rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL);
        }
    }

    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }
}

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
    done: bool,
}

/// In `starting/ID`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Starting {
    owner: Option<Process>,
    #[serde(default)]
    digest: Option<Digest>,
}

impl Records {
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Takes a free id, and with it ids of the host that no other sandbox has.
    pub fn begin(&self, digest: Option<&Digest>) -> Result<Begun<'_>, Error> {
        let owner = Starting { owner: Process::own(), digest: digest.copied() };
        let content = serde_json::to_vec(&owner).map_err(|error| self.error(error.into()))?;
        loop {
            let slot = random_slot().map_err(|error| self.error(error))?;
            let id = format!("m{slot:04x}");
            match self.create(&self.starting(&id), &content) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                result => drop(result.map_err(|error| self.error(error))?),
            }
            let begun = |log| Begun { records: self, ids: Ids::of_slot(slot), digest: owner.digest, id: id.clone(), log, done: false };
            if self.path(&id).exists() || self.service(&id).exists() {
                let _ = fs::remove_file(self.starting(&id));
                continue;
            }
            let log = self.create(&self.log(&id), b"");
            let log = log.inspect_err(|_| drop(fs::remove_file(self.starting(&id)))).map_err(|error| self.error(error))?;
            return Ok(begun(log.into()));
        }
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
        Ok(self.names(&self.directory.join("starting"))?.iter().any(|id| self.is_being_made(id)))
    }

    pub fn log(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.log"))
    }

    /// Complete mounts, oldest first. One that vanishes while we read is not there, and neither is
    /// one that is still being made.
    pub fn all(&self) -> Result<Vec<Record>, Error> {
        let names = self.names(&self.directory)?;
        let unfinished = self.names(&self.directory.join("starting"))?;
        let mut records = Vec::new();
        for id in names.iter().filter_map(|name| name.strip_suffix(".json")).filter(|id| !unfinished.iter().any(|name| name == id)) {
            records.extend(self.get(id)?);
        }
        records.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
        Ok(records)
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
        let names = self.names(&self.directory.join("starting"))?;
        Ok(names.into_iter().filter(|id| !self.is_being_made(id)).collect())
    }

    fn is_being_made(&self, id: &str) -> bool {
        // Gone meanwhile: its maker is done, one way or the other.
        !self.starting(id).exists() || self.maker(id).is_some_and(|maker| maker.is_alive())
    }

    /// Who makes or made the mount that is not complete.
    pub fn maker(&self, id: &str) -> Option<Process> {
        self.begun(id)?.owner
    }

    /// The images of mounts that are not complete, by id.
    pub fn images_of_unfinished(&self) -> Result<Vec<(String, Digest)>, Error> {
        let names = self.names(&self.directory.join("starting"))?;
        Ok(names.into_iter().filter_map(|id| Some((id.clone(), self.begun(&id)?.digest?))).collect())
    }

    fn begun(&self, id: &str) -> Option<Starting> {
        serde_json::from_slice(&fs::read(self.starting(id)).ok()?).ok()
    }

    /// Removes all files of a mount.
    pub fn remove(&self, id: &str) {
        for path in [self.path(id), self.log(id), self.new_path(id), self.starting(id)] {
            let _ = fs::remove_file(path);
        }
        self.remove_empty_directories();
    }

    /// The mount is complete: nobody is making it any more.
    pub fn adopt(&self, id: &str) {
        let _ = fs::remove_file(self.starting(id));
    }

    fn remove_empty_directories(&self) {
        // Only when empty, and made again when needed. Each is tried: another process may have
        // removed the inner one already.
        let _ = fs::remove_dir(self.directory.join("starting"));
        let _ = fs::remove_dir(self.services());
        let _ = fs::remove_dir(&self.directory);
    }

    fn commit(&self, record: &Record) -> io::Result<()> {
        let new = self.new_path(&record.id);
        let mut file = self.create(&new, &serde_json::to_vec(record)?)?;
        file.flush()?;
        fs::rename(new, self.path(&record.id))
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.json"))
    }

    fn new_path(&self, id: &str) -> PathBuf {
        self.directory.join("starting").join(format!(".{id}.json"))
    }

    fn starting(&self, id: &str) -> PathBuf {
        self.directory.join("starting").join(id)
    }

    /// A new file, readable by root only. Its directory may just have been removed for being empty.
    fn create(&self, path: &Path, content: &[u8]) -> io::Result<fs::File> {
        const TRIES: u32 = 1000;
        for _ in 0..TRIES {
            match create_complete(path, content) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(self.directory.join("starting"));
                    made.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
                }
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
        self.records.commit(record).map_err(|source| self.records.error(source))
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
    rustix::fs::linkat(&file, "", CWD, path, AtFlags::EMPTY_PATH)?;
    Ok(file)
}

/// The ids that belong to a record's name.
pub fn ids_of(id: &str) -> Option<Ids> {
    let slot = u16::from_str_radix(id.strip_prefix('m')?, 16).ok()?;
    (slot < Ids::SLOTS).then(|| Ids::of_slot(slot))
}

fn holds_fuse(pid: i32) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    descriptors.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.ends_with("dev/fuse")))
}

fn random_slot() -> io::Result<u16> {
    loop {
        let mut bytes = [0u8; 2];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let slot = u16::from_ne_bytes(bytes) & 0x7fff;
        if slot < Ids::SLOTS {
            return Ok(slot);
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
        drop(records.begin(None).unwrap());
        assert!(!directory.path().join("run").exists());
    }

    #[test]
    fn a_live_maker_is_not_disturbed_and_a_dead_one_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::at(directory.path());
        let begun = records.begin(None).unwrap();
        assert_eq!(records.abandoned().unwrap(), [""; 0]);
        let dead = Starting { owner: Some(Process { pid: 1, started: 1 << 60 }), digest: None };
        fs::write(records.starting(&begun.id), serde_json::to_vec(&dead).unwrap()).unwrap();
        assert_eq!(records.abandoned().unwrap(), std::slice::from_ref(&begun.id));
    }

    #[test]
    fn an_id_names_its_slot() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::at(directory.path());
        let begun = records.begin(None).unwrap();
        assert_eq!(ids_of(&begun.id), Some(begun.ids));
        for id in ["", "m", "x0001", "mffff", "m0001.json", "../m0001"] {
            assert_eq!(ids_of(id), None, "{id}");
        }
    }

    #[test]
    fn this_process_is_alive() {
        assert!(Process::own().unwrap().is_alive());
        assert!(!Process { started: 1, ..Process::own().unwrap() }.is_alive());
    }
}
