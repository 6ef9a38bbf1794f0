//! In and out: records, one small file per mount. The kernel is the truth; records add what it does not know.
//!
//! ```text
//! /run/shorefast/starting/SLOT      a mount is being made by the process named in it
//! /run/shorefast/ID.json            a complete mount, written by rename before it is attached
//! /run/shorefast/by-mount/NUMBER    the same file, by the kernel's id of the mount
//! /run/shorefast/ID.log             the client's output and a copy of the record (see sys::ring)
//! /run/shorefast/past/              what is left of mounts that are gone (see `past`)
//! /run/shorefast/unreadable/        records that could not be read, moved there by `reconcile`
//! ```
//! What a killed process left behind is listed in `starting`, so the next call finds it without reading the records of all live mounts.
//!
//! An id is a slot, which selects the sandbox's uids, and a random nonce: `m1a2b-0f3c5d7e9b11`. Slots are reused, ids never, so whatever
//! carries an id (a keeper, a cgroup, a file) cannot be mistaken for another mount's, even after the run directory was lost.

mod strays;
mod starting;
mod files;

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, FlockOperation};
use rustix::io::Errno;
use shorefast_sandbox::spec::Ids;

use crate::error::Error;
use crate::record::{MountId, Record, index_key};
pub use starting::{Begun, Underway};
pub use strays::Unreadable;

/// All records of one host.
#[derive(Clone, Debug)]
pub struct Records {
    directory: PathBuf,
}

/// All records that could be read, and the files that could not.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Complete mounts, oldest first.
    pub records: Vec<Record>,
    pub unreadable: Vec<Unreadable>,
}

impl Records {
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Complete mounts, oldest first. Records that vanish during the scan, and unfinished mounts, are left out.
    pub fn all(&self) -> Result<Vec<Record>, Error> {
        Ok(self.scan()?.records)
    }

    /// The same, with the unreadable files: one of them does not spoil the rest.
    pub fn scan(&self) -> Result<Scan, Error> {
        let names = self.names(&self.directory)?;
        let unfinished = self.unfinished()?;
        let unfinished: HashSet<_> = unfinished.iter().map(|(id, _)| id.as_str()).collect();
        let mut scan = Scan::default();
        for id in names.iter().filter_map(|name| name.strip_suffix(".json")).filter(|id| !unfinished.contains(id)) {
            match self.get(id) {
                Ok(record) => scan.records.extend(record),
                Err(Error::Record { path, source }) => scan.unreadable.push(Unreadable { path, why: source.to_string() }),
                Err(error) => return Err(error),
            }
        }
        scan.records.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
        Ok(scan)
    }

    /// The ids of a few complete mounts, a different sample each time.
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

    /// The record of a mount in this namespace, by index.
    pub fn by_mount(&self, id: u64, unique: bool) -> Option<Record> {
        let record = read_record(&self.indexed(&index_key(id, unique)))?;
        ((record.mount.id, record.mount.unique) == (id, unique) && record.is_of_this_boot()).then_some(record)
    }

    /// Whether the kernel has given the id of this mount to a later one of ours: then this one is gone. A record is indexed before its mount
    /// is attached, so a mount that was seen in the table before this answer is not the later one.
    pub fn is_superseded(&self, record: &Record) -> bool {
        let MountId { id, unique, .. } = record.mount;
        !unique && self.by_mount(id, unique).is_some_and(|other| other.id != record.id)
    }

    /// Serializes unmounts of this mount. `None`: the log is gone, or another process holds the lock beyond the deadline.
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

    /// Writes a lost record again.
    pub fn restore(&self, record: &Record, log: &[u8]) -> io::Result<()> {
        match self.create(&self.log(&record.id), log) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            // Its mount may be gone and its id another's by now.
            _ if self.is_superseded(record) => self.write(record).map(drop),
            _ => self.commit(record),
        }
    }

    /// Writes the record of a complete mount again. A lost one stays lost: its mount was cleaned up meanwhile.
    pub fn rewrite(&self, record: &Record) -> Result<(), Error> {
        let write = || {
            if !self.path(&record.id).exists() {
                return Ok(());
            }
            let log = fs::File::options().write(true).open(self.log(&record.id))?;
            shorefast_sys::ring::write_note(&log, &serde_json::to_vec(record)?)?;
            self.commit(record)
        };
        write().map_err(|source| Error::Record { path: self.path(&record.id), source })
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

    pub fn log(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.log"))
    }

    /// The path of a service's record.
    pub fn service(&self, id: &str) -> PathBuf {
        self.services().join(format!("{id}.json"))
    }

    pub fn services(&self) -> PathBuf {
        self.directory.join("services")
    }

    fn commit(&self, record: &Record) -> io::Result<()> {
        let file = self.write(record)?;
        self.index(record.mount, &file)?;
        if is_on_disk(&file) {
            fs::File::open(&self.directory)?.sync_all()?;
        }
        Ok(())
    }

    fn write(&self, record: &Record) -> io::Result<fs::File> {
        let new = self.new_path(&record.id);
        let file = self.create(&new, &serde_json::to_vec(record)?)?;
        // Only records survive a power cut. A file that says what is just being made is of no use after one, and an unreadable one counts as
        // abandoned.
        if is_on_disk(&file) {
            file.sync_data()?;
        }
        fs::rename(&new, self.path(&record.id))?;
        Ok(file)
    }

    /// Adds a record to the index by mount id. An existing entry is stale: the kernel never assigns one id to two mounts at a time.
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

    fn remove_from_index(&self, id: &str, mount: MountId) {
        let entry = self.indexed(&mount.key());
        if mount.unique {
            let _ = fs::remove_file(entry);
        } else if self.by_mount(mount.id, false).is_some_and(|record| record.id == id) {
            self.remove_entry(&entry, id, |file| read_record(file).is_some_and(|record| record.id == id));
        }
    }

    /// Removes an entry of the index if it is the one that is meant. A reusable (not unique) mount id may be given to another mount, and its
    /// entry be replaced, at any moment: the entry is moved to a name of our own before the look that decides, and back if it is
    /// another's. `own`: makes that name.
    fn remove_entry(&self, entry: &Path, own: &str, is_meant: impl Fn(&Path) -> bool) {
        let taken = self.indexed(&format!(".{own}"));
        if fs::rename(entry, &taken).is_err() {
            return;
        }
        if !is_meant(&taken) {
            // Fails if there is an even later one.
            let _ = rustix::fs::linkat(CWD, &taken, CWD, entry, AtFlags::empty());
        }
        let _ = fs::remove_file(taken);
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

    fn error(&self, source: io::Error) -> Error {
        Error::Record { path: self.directory.clone(), source }
    }
}

fn read_record(path: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
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

/// Makes a directory that other processes remove when it is empty, and its parent with it: it may be gone again by now. A race shows as an
/// error, too: the parent vanished before the call, or the directory after mkdir(2) found it.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    let is_race = |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists);
    made.or_else(|error| if is_race(&error) { Ok(()) } else { Err(error) })
}

/// How often a step is repeated that lost a race against another process: always, as far as anybody will see.
pub(crate) const TRIES: u32 = 100_000;

/// Whether a power cut would leave something of it. A run directory is in memory nearly everywhere.
pub(crate) fn is_on_disk(file: &fs::File) -> bool {
    const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
    rustix::fs::fstatfs(file).is_ok_and(|filesystem| !IN_MEMORY.contains(&(filesystem.f_type as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, mount: MountId) -> Record {
        let json = serde_json::json!({
            "id": id, "target": "/srv/x", "source": "none", "fstype": "tmpfs", "client": "tmpfs", "image": "", "mode": "image", "since": 0,
            "mount": mount, "namespace": 1, "init": null, "keeper": null, "host_processes": false, "cgroup": [], "keep_dead": false,
        });
        serde_json::from_value(json).unwrap()
    }

    const REUSABLE: MountId = MountId { id: 42, unique: false, major: 0, minor: 7 };

    fn indexed(records: &Records) -> Option<String> {
        records.by_mount(REUSABLE.id, REUSABLE.unique).map(|record| record.id)
    }

    #[test]
    fn a_mount_id_belongs_to_the_last_that_got_it() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::at(directory.path().join("run"));
        let (earlier, later) = (record("m0001-1", REUSABLE), record("m0002-2", REUSABLE));
        records.commit(&earlier).unwrap();
        assert!(!records.is_superseded(&earlier));
        records.commit(&later).unwrap();
        assert!(records.is_superseded(&earlier) && !records.is_superseded(&later));
        // A lost record that is found again does not get it back.
        records.restore(&earlier, b"").unwrap();
        assert_eq!(indexed(&records).as_deref(), Some("m0002-2"));
        records.remove("m0001-1");
        assert_eq!(indexed(&records).as_deref(), Some("m0002-2"));
        records.remove("m0002-2");
        assert!(!directory.path().join("run").exists());
    }

    #[test]
    fn an_entry_that_was_replaced_since_it_was_looked_at_stays() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::at(directory.path());
        let entry = records.indexed(&REUSABLE.key());
        records.commit(&record("m0002-2", REUSABLE)).unwrap();
        // Whoever removes m0001-1 saw its entry a moment ago.
        let is_meant = |file: &Path| read_record(file).is_some_and(|record| record.id == "m0001-1");
        records.remove_entry(&entry, "m0001-1", is_meant);
        assert_eq!(indexed(&records).as_deref(), Some("m0002-2"));
        // A third comes while the entry of the second is away.
        let and_a_third = |file: &Path| {
            records.commit(&record("m0003-3", REUSABLE)).unwrap();
            is_meant(file)
        };
        records.remove_entry(&entry, "m0001-1", and_a_third);
        assert_eq!(indexed(&records).as_deref(), Some("m0003-3"));
        assert_eq!(fs::read_dir(directory.path().join("by-mount")).unwrap().count(), 1);
    }
}
