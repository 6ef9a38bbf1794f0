//! Unfinished mounts: `starting/SLOT` exists from before the first change to the host until after the last, and names the launching
//! process. By it the next call finds what a killed one left behind.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use shorefast_image::Digest;
use shorefast_sandbox::cleaner::members;
use shorefast_sandbox::spec::{Ids, Processes};
use shorefast_sys as sys;
use sys::claim::Claim;

use crate::error::Error;
use crate::past::{self, Ending, Past};
use crate::process::Process;
use crate::record::{MountId, Record, slot_of};
use crate::records::{Records, random};
use crate::text;

/// A mount in progress. Dropping it removes every trace of the attempt.
#[derive(Debug)]
pub struct Begun<'a> {
    records: &'a Records,
    pub id: String,
    pub ids: Ids,
    /// The image that it will run from.
    pub digest: Option<Digest>,
    pub log: OwnedFd,
    /// The mount id under which the last record is indexed.
    indexed: RefCell<Option<MountId>>,
    done: bool,
    /// Of a mount that leaves a story if it fails: not of a service, and not of another client for a mount, which tells that.
    mount: Option<Underway>,
    /// Until the sandbox's processes are there to be seen by others; it does no harm for longer.
    _claim: Option<Claim>,
}

impl Begun<'_> {
    /// From here on the record is enough to clean up after the mount or to keep it.
    pub fn commit(&self, record: &Record) -> Result<(), Error> {
        if let Some(before) = self.indexed.replace(Some(record.mount)).filter(|before| *before != record.mount) {
            self.records.remove_from_index(&self.id, before);
        }
        let copied = serde_json::to_vec(record).map_err(io::Error::from).and_then(|note| sys::ring::write_note(&self.log, &note));
        copied.and_then(|()| self.records.commit(record)).map_err(|source| self.records.error(source))
    }

    /// The mount is complete; its launching process is no longer needed.
    pub fn finish(mut self) {
        self.done = true;
        self.records.adopt(&self.id);
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if !self.done {
            if let Some(mount) = self.mount.take() {
                past::keep(self.records.directory(), mount.attempt(&self.id, Ending::Failed));
            }
            self.records.remove(&self.id);
        }
    }
}

/// A mount in progress, for listing or cancelling it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Underway {
    /// As given by the caller, made absolute.
    #[serde(with = "text")]
    pub target: PathBuf,
    /// As given by the caller, without a password. Missing in files of earlier builds.
    #[serde(default, with = "text::optional")]
    pub source: Option<OsString>,
    pub client: String,
    pub image: String,
    pub mode: String,
    pub since: u64,
}

impl Underway {
    /// Its story, if this process does not complete it.
    fn attempt(self, id: &str, how: Ending) -> Past {
        Past {
            id: Some(id.to_owned()),
            target: self.target,
            source: self.source,
            fstype: None,
            client: self.client,
            image: self.image,
            digest: None,
            mode: self.mode,
            since: self.since,
            until: None,
            label: None,
            first: None,
            how,
            end: None,
            crashes: Vec::new(),
            why: None,
            maker: Process::own(),
        }
    }
}

/// The content of `starting/SLOT`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Starting {
    /// Missing in files of earlier builds, which are named by the id.
    #[serde(default)]
    id: Option<String>,
    owner: Option<Process>,
    #[serde(default)]
    digest: Option<Digest>,
    #[serde(default)]
    boot: String,
    /// The mount being made; none for a service.
    #[serde(default)]
    mount: Option<Underway>,
}

impl Starting {
    fn is_being_made(&self) -> bool {
        self.is_being_made_by(|owner| owner.is_alive())
    }

    fn is_being_made_by(&self, is_alive: impl FnOnce(Process) -> bool) -> bool {
        let is_now = self.boot.is_empty() || self.boot == sys::process::boot_id();
        is_now && self.owner.is_some_and(is_alive)
    }
}

impl Records {
    /// Takes a free id, and with it ids of the host that no other sandbox has.
    pub fn begin(&self, digest: Option<&Digest>, mount: Option<&Underway>, deadline: Instant) -> Result<Begun<'_>, Error> {
        self.begin_like(None, Processes::Own, digest, mount, deadline)
    }

    /// The same with the ids of the host that another mount had, if nobody else has them: a client that follows another finds its files its
    /// own. One that still serves what is open has them at the same time, unless they see each other's processes.
    pub fn begin_like(
        &self,
        before: Option<&Record>,
        processes: Processes,
        digest: Option<&Digest>,
        mount: Option<&Underway>,
        deadline: Instant,
    ) -> Result<Begun<'_>, Error> {
        let (random, nonce) = random().map_err(|error| self.error(error))?;
        let leaves_story = before.is_none();
        let before = before.and_then(|before| slot_of(&before.id));
        let first = before.unwrap_or(random);
        let starting = Starting {
            id: None,
            owner: Process::own(),
            digest: digest.copied(),
            boot: sys::process::boot_id().to_owned(),
            mount: mount.cloned(),
        };
        for slot in (first..Ids::SLOTS).chain(0..first) {
            if Instant::now() >= deadline {
                return Err(self.error(io::Error::new(ErrorKind::TimedOut, "no free id was found in time")));
            }
            // A host's first process may take its time to reap what has ended there.
            let is_taken = |ids| match Some(slot) == before {
                true => members::is_anybody_alive(ids, &self.sandboxes_of(slot, processes)),
                false => members::is_anybody(ids),
            };
            if let Some(mut begun) = self.begin_in(slot, nonce, &starting, deadline, is_taken).map_err(|error| self.error(error))? {
                begun.mount = begun.mount.take().filter(|_| leaves_story);
                return Ok(begun);
            }
        }
        Err(self.error(io::Error::new(ErrorKind::AlreadyExists, "no free id was found: too many clients run on this host")))
    }

    /// `None`: the slot is taken.
    fn begin_in(
        &self,
        slot: u16,
        nonce: u64,
        starting: &Starting,
        deadline: Instant,
        is_taken: impl Fn(Ids) -> bool,
    ) -> io::Result<Option<Begun<'_>>> {
        let (id, ids) = (format!("m{slot:04x}-{nonce:012x}"), Ids::of_slot(slot));
        if self.starting(&id).exists() {
            return Ok(None);
        }
        // Another run directory may be about to take it. Where the kernel has no keys for us, the look below has to do.
        let left = deadline.saturating_duration_since(Instant::now());
        let claim = match Claim::make(&format!("shorefast-slot-{slot:04x}"), left) {
            Ok(None) => return Ok(None),
            Ok(claim) => claim,
            Err(_) => None,
        };
        // After the claim: its previous holder has processes by now. Also of another run directory, or of a mount that this one
        // has forgotten.
        if is_taken(ids) {
            return Ok(None);
        }
        let content = serde_json::to_vec(&Starting { id: Some(id.clone()), ..starting.clone() })?;
        match self.create(&self.starting(&id), &content) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            result => drop(result?),
        }
        let log = self.create(&self.log(&id), b"").inspect_err(|_| drop(fs::remove_file(self.starting(&id))))?.into();
        let indexed = RefCell::default();
        let mount = starting.mount.clone();
        Ok(Some(Begun { records: self, ids, digest: starting.digest, id, log, indexed, done: false, mount, _claim: claim }))
    }

    /// Sandboxes of mounts with the ids of this slot. Another one may have the same if none of them sees the processes of the others: who
    /// shares the host's is killed by its ids.
    fn sandboxes_of(&self, slot: u16, processes: Processes) -> Vec<u64> {
        let prefix = format!("m{slot:04x}-");
        let names = self.names(self.directory()).unwrap_or_default();
        let ids = names.iter().filter_map(|name| name.strip_suffix(".json")).filter(|id| id.starts_with(&prefix));
        let records = ids.filter_map(|id| self.get(id).ok().flatten());
        let apart = |record: &Record| processes == Processes::Own && !record.host_processes;
        records.filter(apart).filter_map(|record| record.sandbox).collect()
    }

    /// Whether a mount is in progress.
    pub fn is_anything_being_made(&self) -> Result<bool, Error> {
        Ok(self.unfinished()?.iter().any(|(_, starting)| starting.as_ref().is_some_and(Starting::is_being_made)))
    }

    /// Mounts whose launching process died before it was done.
    pub fn abandoned(&self) -> Result<Vec<String>, Error> {
        // A process that makes many is looked at once.
        let mut last = None;
        let mut is_alive = |owner: Process| match last {
            Some((known, is_alive)) if known == owner => is_alive,
            _ => last.insert((owner, owner.is_alive())).1,
        };
        let mut dead = |(_, starting): &(String, Option<Starting>)| {
            !starting.as_ref().is_some_and(|starting| starting.is_being_made_by(&mut is_alive))
        };
        Ok(self.unfinished()?.into_iter().filter(|one| dead(one)).map(|(id, _)| id).collect())
    }

    /// The launching process of an unfinished mount of this boot.
    pub fn maker(&self, id: &str) -> Option<Process> {
        let starting = self.begun(id)?;
        starting.owner.filter(|_| starting.boot.is_empty() || starting.boot == sys::process::boot_id())
    }

    /// The story of a mount whose launching process was killed before there was a record. `None`: it is none of a mount of the caller's.
    pub fn abandoned_story(&self, id: &str) -> Option<Past> {
        let mount = self.begun(id)?.mount?;
        Some(Past { maker: None, ..mount.attempt(id, Ending::Abandoned) })
    }

    /// Whether the mount is in progress, or was never completed.
    pub fn is_unfinished(&self, id: &str) -> bool {
        match fs::read(self.starting(id)) {
            Err(error) => error.kind() != ErrorKind::NotFound,
            // Another mount may be about to have the same slot.
            Ok(bytes) => {
                let starting: Option<Starting> = serde_json::from_slice(&bytes).ok();
                starting.and_then(|starting| starting.id).is_none_or(|other| other == id)
            }
        }
    }

    /// Mounts in progress, each with its future id and its launching process.
    pub fn underway(&self) -> Result<Vec<(String, Underway, Process)>, Error> {
        let made = |(id, starting): (String, Option<Starting>)| {
            let starting = starting.filter(Starting::is_being_made)?;
            Some((id, starting.mount?, starting.owner?))
        };
        Ok(self.unfinished()?.into_iter().filter_map(made).collect())
    }

    /// The images of unfinished mounts, by id.
    pub fn images_of_unfinished(&self) -> Result<Vec<(String, Digest)>, Error> {
        Ok(self.unfinished()?.into_iter().filter_map(|(id, starting)| Some((id, starting?.digest?))).collect())
    }

    /// Marks the mount as complete.
    pub fn adopt(&self, id: &str) {
        if self.begun(id).is_some() || !id.contains('-') {
            let _ = fs::remove_file(self.starting(id));
        }
    }

    /// Unfinished mounts, by id. `None`: the file cannot be parsed.
    pub(crate) fn unfinished(&self) -> Result<Vec<(String, Option<Starting>)>, Error> {
        let names = self.names(&self.directory.join("starting"))?;
        let read = |name: String| match fs::read(self.starting(&name)) {
            // Removed meanwhile: its launching process has finished or given up.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            bytes => {
                let starting: Option<Starting> = bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
                Some((starting.as_ref().and_then(|starting| starting.id.clone()).unwrap_or(name), starting))
            }
        };
        Ok(names.into_iter().filter_map(read).collect())
    }

    fn begun(&self, id: &str) -> Option<Starting> {
        let starting: Starting = serde_json::from_slice(&fs::read(self.starting(id)).ok()?).ok()?;
        // The slot may have been taken by another mount since.
        starting.id.as_ref().is_none_or(|other| other == id).then_some(starting)
    }

    fn starting(&self, id: &str) -> PathBuf {
        let slot = id.split_once('-').map_or(id, |(slot, _)| slot);
        self.directory.join("starting").join(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ids_of;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn what_was_begun_and_dropped_never_was() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::at(directory.path().join("run"));
        drop(records.begin(None, None, soon()).unwrap());
        assert!(!directory.path().join("run").exists());
    }

    #[test]
    fn a_live_maker_is_not_disturbed_and_a_dead_one_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::at(directory.path());
        let begun = records.begin(None, None, soon()).unwrap();
        assert_eq!(records.abandoned().unwrap(), [""; 0]);
        let dead = Starting {
            id: Some(begun.id.clone()),
            owner: Some(Process { pid: 1, started: 1 << 60, unique: None }),
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
        let begun = records.begin(None, None, soon()).unwrap();
        assert_eq!(ids_of(&begun.id), Some(begun.ids));
        for id in ["", "m", "x0001", "mffff", "m0001.json", "../m0001", "m1-0", "m0001-", "m0001-x", "m00011-0"] {
            assert_eq!(ids_of(id), None, "{id}");
        }
        // Of an earlier build.
        assert_eq!(ids_of("m0001"), Some(Ids::of_slot_before(1)));
    }

    fn slot_of(id: &str) -> u16 {
        u16::from_str_radix(&id[1..5], 16).unwrap()
    }

    fn of_nobody() -> Starting {
        Starting { id: None, owner: None, digest: None, boot: String::new(), mount: None }
    }

    #[test]
    fn a_slot_that_another_run_directory_is_about_to_use_is_left_alone() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (here, there) = (Records::at(here.path()), Records::at(there.path()));
        let begun = here.begin(None, None, soon()).unwrap();
        let slot = slot_of(&begun.id);
        assert!(there.begin_in(slot, 1, &of_nobody(), soon(), members::is_anybody).unwrap().is_none(), "two sandboxes with the same ids");
        drop(begun);
        assert!(there.begin_in(slot, 1, &of_nobody(), soon(), members::is_anybody).unwrap().is_some(), "nobody has it any more");
    }

    #[test]
    fn a_slot_of_an_unfinished_mount_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::at(directory.path());
        let begun = records.begin(None, None, soon()).unwrap();
        let slot = slot_of(&begun.id);
        let started = records.starting(&begun.id);
        let content = fs::read(&started).unwrap();
        drop(begun);
        fs::create_dir_all(started.parent().unwrap()).unwrap();
        fs::write(&started, content).unwrap();
        assert!(records.begin_in(slot, 1, &of_nobody(), soon(), members::is_anybody).unwrap().is_none());
    }

    #[test]
    fn the_search_for_a_slot_ends_with_the_time_for_the_mount() {
        let directory = tempfile::tempdir().unwrap();
        let error = Records::at(directory.path()).begin(None, None, Instant::now()).unwrap_err();
        assert!(matches!(error, Error::Record { source, .. } if source.kind() == ErrorKind::TimedOut));
    }
}
