//! The data kept for one mount: what the kernel does not know about it, and how to recognise it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use shorefast_image::Digest;
use shorefast_sandbox::Cgroup;
use shorefast_sandbox::spec::{Ids, Processes};
use shorefast_sys as sys;

use crate::client_end::ClientEnd;
use crate::exit_policy::{HealPolicy, OnExit};
use crate::process::Process;
use crate::recipe::Fingerprint;
use crate::{server, text};

/// All data kept for a mount. No options, no environment: nothing that could be a secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub id: String,
    #[serde(with = "text")]
    pub target: PathBuf,
    #[serde(with = "text")]
    pub source: OsString,
    /// As given by the caller, without a password. Missing in records of earlier builds.
    #[serde(default, with = "text::optional", skip_serializing_if = "Option::is_none")]
    pub asked_source: Option<OsString>,
    pub fstype: String,
    pub client: String,
    pub image: String,
    /// None for a directory that is used in place.
    #[serde(default)]
    pub digest: Option<Digest>,
    pub mode: String,
    pub since: u64,
    pub mount: MountId,
    /// The namespace in which the mount was attached, by inode.
    pub namespace: u64,
    /// The sandbox's pid 1; none for a filesystem that the kernel serves.
    pub init: Option<Process>,
    pub keeper: Option<Process>,
    pub host_processes: bool,
    pub cgroup: Cgroup,
    /// The limits as planned, for display only.
    #[serde(default)]
    pub limits: serde_json::Value,
    /// Never detached by us when its client dies: it stays, dead or to be healed.
    pub keep_dead: bool,
    /// Set: a new client takes over when this one dies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal: Option<HealPolicy>,
    /// The crashes of its clients, and what came of them, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crashes: Vec<Crash>,
    /// The mount in whose places this one is being put. Gone when that is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Replaces>,
    /// The id of the mount that was first asked for, whose place this one took when its client died or was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// The id of the mount that took its place while its client served. That goes on with what is open on it, and ends with the last of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    /// The id of the dead mount that this one covers, where it could not be taken off (before Linux 6.5): it goes with this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covers: Option<String>,
    /// Places that still have an earlier mount, whose client has died, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// The mount needs its client's services as long as it exists.
    #[serde(default)]
    pub uses_services: bool,
    /// Which of them; empty means all (records of older builds).
    #[serde(default)]
    pub services: Vec<String>,
    /// The boot it belongs to. After a reboot, its mount ids and pids are meaningless.
    #[serde(default)]
    pub boot: String,
    /// The sandbox's mount namespace, by inode: proves that a process belongs to it.
    #[serde(default)]
    pub sandbox: Option<u64>,
    /// What the caller calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Fingerprint of the recipe. Missing in records of older builds.
    #[serde(default)]
    pub made_of: Option<Fingerprint>,
    /// Exit statuses other than 0 with which the client ends when all is well. Missing in records of older builds.
    #[serde(default)]
    pub ends_with: Vec<i32>,
}

impl Record {
    /// The same for a mount and all that took its place.
    pub fn lineage(&self) -> &str {
        self.first.as_deref().unwrap_or(&self.id)
    }

    /// Records of older builds have no boot id and are taken to be current.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot.is_empty() || self.boot == sys::process::boot_id()
    }

    /// Whether it needs this service as long as it exists.
    pub fn uses(&self, service: &str) -> bool {
        self.uses_services && (self.services.is_empty() || self.services.iter().any(|one| one == service))
    }

    /// The process that serves the mount.
    pub fn daemon(&self) -> Option<i32> {
        let init = self.init.filter(Process::is_alive)?.pid;
        server::of(init).filter(|pid| Pid::from_raw(*pid).is_some_and(sys::process::has_memory))
    }

    /// The same with one crash more.
    pub fn with_crash(&self, crash: Crash) -> Self {
        let mut crashes = self.crashes.clone();
        crashes.push(crash);
        crashes.drain(..crashes.len().saturating_sub(REMEMBERED));
        let older = crashes.len().saturating_sub(WITH_LAST_WORDS);
        crashes[..older].iter_mut().for_each(|crash| crash.said.clear());
        Self { crashes, ..self.clone() }
    }

    /// What it was asked for; a client may call its source whatever it likes.
    pub fn shown_source(&self) -> &OsStr {
        self.asked_source.as_deref().unwrap_or(&self.source)
    }

    pub fn keeps_dead(on_exit: OnExit) -> bool {
        on_exit != OnExit::Detach
    }

    pub fn on_exit(&self) -> OnExit {
        match (self.heal, self.keep_dead) {
            (Some(_), _) => OnExit::Heal,
            (None, true) => OnExit::Keep,
            (None, false) => OnExit::Detach,
        }
    }

    pub fn shares_processes(processes: Processes) -> bool {
        processes == Processes::Host
    }
}

/// No more crashes are kept.
const REMEMBERED: usize = 20;
/// So many of them with what the client said last.
const WITH_LAST_WORDS: usize = 3;

/// The death of a client, or a failed attempt to start another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    /// In seconds since 1970.
    pub at: u64,
    #[serde(flatten)]
    pub end: ClientEnd,
    /// How long it took until a new client served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healed_after_ms: Option<u64>,
    /// Why there was no new client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The id of the mount whose client it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The last lines of the client that died. Kept for the newest crashes only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
}

impl Crash {
    /// Now, of this mount's client. `said`: its last lines.
    pub fn now(record: &Record, end: ClientEnd, said: Vec<String>) -> Self {
        Self { at: now(), end, healed_after_ms: None, problem: None, id: Some(record.id.clone()), said }
    }
}

/// A mount that is being replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaces {
    pub mount: MountId,
    /// The process that does it.
    pub by: Process,
}

impl Replaces {
    pub fn of(old: &Record) -> Option<Self> {
        Some(Self { mount: old.mount, by: Process::own()? })
    }
}

/// In seconds since 1970, as records have it.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The kernel's id of a mount, as stored in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountId {
    pub id: u64,
    pub unique: bool,
    pub major: u32,
    pub minor: u32,
}

impl MountId {
    /// The index key of its record.
    pub(crate) fn key(self) -> String {
        index_key(self.id, self.unique)
    }
}

pub(crate) fn index_key(id: u64, unique: bool) -> String {
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

/// The slot in a record's id.
pub(crate) fn slot_of(id: &str) -> Option<u16> {
    let slot = id.split_once('-').map_or(id, |(slot, _)| slot);
    let digits = slot.strip_prefix('m').filter(|digits| digits.len() == 4)?;
    u16::from_str_radix(digits, 16).ok().filter(|slot| *slot < Ids::SLOTS)
}

/// The uids that belong to a record's id.
pub fn ids_of(id: &str) -> Option<Ids> {
    let slot = slot_of(id)?;
    match id.split_once('-').map(|(_, nonce)| nonce) {
        Some(nonce) => u64::from_str_radix(nonce, 16).is_ok().then(|| Ids::of_slot(slot)),
        None => Some(Ids::of_slot_before(slot)),
    }
}
