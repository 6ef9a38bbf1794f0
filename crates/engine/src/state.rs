//! In: a record. Out: the state of its mount, and where it is now. Reads the kernel's tables only and never calls a filesystem, so a dead
//! server cannot block it.

use std::cell::{Cell, OnceCell};
use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use shorefast_sys as sys;
use sys::mount::Identity;
use sys::mountinfo::{self, Entry};

use crate::origin;
use crate::process::Process;
use crate::record::Record;
use crate::records::Records;
use crate::text;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Serving,
    /// Mounted, but not served.
    Dead,
    /// Its client died, and its keeper is starting another one. Users of the mount wait.
    Healing,
    /// Its client died, and starting another one was given up: the mount stays, and its users get errors.
    Failed,
    /// Its client lives and answers nothing. Never found by a look at the tables alone ([`crate::hang`]).
    Hung,
    /// Served, but no longer at its target: unmounted lazily while in use.
    Detached,
    /// Another client has its places; it goes on serving what is open on it, and ends with the last of it.
    Draining,
}

/// A mount as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    pub state: State,
    /// Its mount point, as seen in its namespace. `None`: not attached.
    #[serde(with = "text::optional")]
    pub place: Option<PathBuf>,
    /// Another mount is on it, or below it.
    pub covered: bool,
    /// Its mount namespace, if that is not ours.
    pub elsewhere: Option<u64>,
}

/// `None`: neither mounted nor served; only the record is left.
pub fn of(records: &Records, record: &Record) -> Option<State> {
    Look::here(records).at(record).map(|standing| standing.state)
}

/// Mounted, and its client has ended.
pub fn is_dead(records: &Records, record: &Record) -> bool {
    matches!(of(records, record), Some(State::Dead | State::Healing | State::Failed))
}

/// A query over many mounts: reads the tables once.
#[derive(Debug)]
pub struct Look<'a> {
    records: &'a Records,
    namespace: Option<u64>,
    /// By mount id: for kernels without unique mount ids.
    table: OnceCell<HashMap<u64, Entry>>,
    /// What something is mounted on, by the ids of the table.
    parents: OnceCell<HashSet<u64>>,
    looks: Cell<usize>,
}

/// For each mount that is asked about alone, the kernel walks over all of them; from so many on, one look at the table is cheaper.
const ASKED_ALONE: usize = 8;

impl<'a> Look<'a> {
    pub fn here(records: &'a Records) -> Self {
        Self { records, namespace: own_namespace(), table: OnceCell::new(), parents: OnceCell::new(), looks: Cell::new(0) }
    }

    /// `None`: neither mounted nor served; only the record is left.
    pub fn at(&self, record: &Record) -> Option<Standing> {
        if !record.is_of_this_boot() {
            return None;
        }
        let is_here = self.namespace == Some(record.namespace);
        let attached =
            if is_here { self.attached(record) } else { in_its_namespace(record, || Self::here(self.records).attached(record)).flatten() };
        // After the look at the table, and in our own namespace, where the run directory is.
        let attached = attached.filter(|_| !self.records.is_superseded(record));
        let is_alive = |process: Option<Process>| process.is_some_and(|process| process.is_alive());
        let state = match (&attached, record.init) {
            (Some(_), None) => State::Serving,
            (Some(_), Some(init)) => match record.heal {
                _ if init.is_alive() => State::Serving,
                Some(_) if is_alive(record.keeper) => State::Healing,
                Some(_) => State::Failed,
                None => State::Dead,
            },
            (None, Some(init)) if init.is_alive() && record.replaced_by.is_some() => State::Draining,
            (None, Some(init)) if init.is_alive() => State::Detached,
            // Its keeper lives as long as the filesystem, even where it is not visible.
            (None, None) if is_alive(record.keeper) => State::Detached,
            (None, _) => return None,
        };
        let covered = attached.as_ref().is_some_and(|attached| attached.covered);
        Some(Standing {
            state,
            place: attached.and_then(|attached| attached.place),
            covered,
            elsewhere: (!is_here).then_some(record.namespace),
        })
    }

    fn attached(&self, record: &Record) -> Option<Attached> {
        let mount = record.mount.into();
        if record.mount.unique {
            return match sys::mount::attachment_of(&mount) {
                Ok(found) => found.map(|found| Attached { covered: self.is_covered(&mount, found.number), place: Some(found.place) }),
                // An error does not prove that it is gone.
                Err(_) => Some(Attached { place: None, covered: false }),
            };
        }
        let entry = self.table().get(&record.mount.id).filter(|entry| mount.is_entry(entry))?;
        Some(Attached { place: Some(entry.mount_point.clone()), covered: self.parents().contains(&entry.id) })
    }

    /// `number`: its id in the table.
    fn is_covered(&self, mount: &Identity, number: u64) -> bool {
        let looks = self.looks.replace(self.looks.get() + 1);
        if looks < ASKED_ALONE { sys::mount::has_children(mount).unwrap_or(false) } else { self.parents().contains(&number) }
    }

    fn table(&self) -> &HashMap<u64, Entry> {
        self.table.get_or_init(|| mountinfo::read().unwrap_or_default().into_iter().map(|entry| (entry.id, entry)).collect())
    }

    fn parents(&self) -> &HashSet<u64> {
        self.parents.get_or_init(|| self.table().values().map(|entry| entry.parent).collect())
    }
}

struct Attached {
    place: Option<PathBuf>,
    covered: bool,
}

/// The mount namespace of the calling thread, by inode.
pub fn own_namespace() -> Option<u64> {
    std::fs::metadata("/proc/thread-self/ns/mnt").ok().map(|namespace| namespace.ino())
}

/// Whether the mount's id is still its own, to be asked after each look at the mount table. In another namespace, where the run directory may
/// not be seen, it is asked once, in advance.
pub fn ownership<'a>(records: &'a Records, record: &'a Record) -> impl Fn() -> bool + 'a {
    let is_here = own_namespace() == Some(record.namespace);
    let was_its = !records.is_superseded(record);
    move || was_its && !(is_here && records.is_superseded(record))
}

/// Runs `act` in the mount namespace in which the mount was made: a systemd service may have a private one. `None`: that namespace is gone.
pub fn in_its_namespace<T>(record: &Record, act: impl FnOnce() -> T) -> Option<T> {
    if own_namespace()? == record.namespace {
        return Some(act());
    }
    let namespace = origin::open(record.namespace, record.keeper.map(|keeper| keeper.pid))?;
    let home = sys::namespace::Home::here().ok()?;
    let _visit = home.visit(namespace.as_fd()).ok()?;
    Some(act())
}
