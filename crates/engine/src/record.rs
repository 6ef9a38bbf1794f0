//! What is kept of one mount: what the kernel does not know of it, and how it is recognised.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use shorefast_image::Digest;
use shorefast_sandbox::Cgroup;
use shorefast_sandbox::spec::{Ids, Processes};
use shorefast_sys as sys;

use crate::definition::OnExit;
use crate::process::Process;
use crate::recipe::Fingerprint;
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
    /// What it was made of. Records of older builds do not say.
    #[serde(default)]
    pub made_of: Option<Fingerprint>,
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

fn holds_fuse(pid: i32) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    descriptors.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.ends_with("dev/fuse")))
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
