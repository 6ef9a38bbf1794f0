//! Records of running services, one small file each.

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
    /// The sandbox's pid 1.
    pub process: Process,
    pub keeper: Option<Process>,
    /// The process that opens pipes for it.
    #[serde(default)]
    #[serde(alias = "doorman")]
    pub service_broker: Option<Process>,
    pub since: u64,
    /// When it died before, in seconds since 1970.
    #[serde(default)]
    pub deaths: Vec<u64>,
    /// Registrations of others with it, if it is rpcbind.
    #[serde(default)]
    pub registered: Vec<Registration>,
}

/// In start order.
pub fn all(records: &Records) -> Vec<Running> {
    let Ok(entries) = fs::read_dir(records.services()) else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json").map(str::to_owned));
    let mut running: Vec<_> = ids.filter_map(|id| get(records, &id)).collect();
    running.sort_by(|a, b| (a.process.started, &a.id).cmp(&(b.process.started, &b.id)));
    running
}

/// A record that vanishes during the read is `None`.
pub fn get(records: &Records, id: &str) -> Option<Running> {
    serde_json::from_slice(&fs::read(records.service(id)).ok()?).ok()
}

impl Running {
    pub fn write(&self, records: &Records) -> io::Result<()> {
        let path = records.service(&self.id);
        // A name per process: two processes may write at once.
        let new = path.with_extension(format!("{}.new", std::process::id()));
        fs::create_dir_all(records.services())?;
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(new, path)
    }

    /// Whether all its processes are alive.
    pub fn is_whole(&self) -> bool {
        self.process.is_alive() && self.service_broker.is_none_or(|service_broker| service_broker.is_alive())
    }

    /// The recent deaths, this one included.
    pub fn deaths_with_this(&self, within: Duration) -> Vec<u64> {
        let now = now();
        self.deaths.iter().copied().chain([now]).filter(|at| at + within.as_secs() >= now).collect()
    }
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
