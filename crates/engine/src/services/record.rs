//! One small file per running service.

use std::fs;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::process::Process;
use crate::records::Records;
use crate::services::plan::Planned;
use crate::services::rpc::Registration;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Running {
    pub id: String,
    pub service: Planned,
    /// The sandbox's first process.
    pub process: Process,
    pub keeper: Option<Process>,
    /// Who opens pipes for it.
    #[serde(default)]
    #[serde(alias = "doorman")]
    pub service_broker: Option<Process>,
    pub since: u64,
    /// When it died before, in seconds since 1970.
    #[serde(default)]
    pub deaths: Vec<u64>,
    /// What others registered with it, if it is a list of that kind.
    #[serde(default)]
    pub registered: Vec<Registration>,
}

/// In the order of their start.
pub fn all(records: &Records) -> Vec<Running> {
    let Ok(entries) = fs::read_dir(records.services()) else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json").map(str::to_owned));
    let mut running: Vec<_> = ids.filter_map(|id| get(records, &id)).collect();
    running.sort_by(|a, b| (a.process.started, &a.id).cmp(&(b.process.started, &b.id)));
    running
}

/// One that vanishes while we read is not there.
pub fn get(records: &Records, id: &str) -> Option<Running> {
    serde_json::from_slice(&fs::read(records.service(id)).ok()?).ok()
}

impl Running {
    pub fn write(&self, records: &Records) -> io::Result<()> {
        let path = records.service(&self.id);
        // Of its own: two processes may write at once.
        let new = path.with_extension(format!("{}.new", std::process::id()));
        fs::create_dir_all(records.services())?;
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(new, path)
    }

    /// Whether it can do all that it is there for.
    pub fn is_whole(&self) -> bool {
        self.process.is_alive() && self.service_broker.is_none_or(|service_broker| service_broker.is_alive())
    }

    /// The deaths that count, this one included.
    pub fn deaths_with_this(&self, within: Duration) -> Vec<u64> {
        let now = now();
        self.deaths.iter().copied().chain([now]).filter(|at| at + within.as_secs() >= now).collect()
    }
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
