//! The machine that measures: whether it is at rest, and what a report says of it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::process;

#[derive(Debug, Serialize)]
pub(super) struct Machine {
    pub(super) command: String,
    pub(super) kernel: String,
    pub(super) processors: String,
    pub(super) memory: String,
    pub(super) date: String,
    /// How many processes wanted to run in the last minute.
    pub(super) load: f64,
    pub(super) binary: String,
}

impl Machine {
    /// A machine that does other work gives numbers that must not be published.
    pub(super) fn is_busy(&self) -> bool {
        self.load > BUSY
    }
}

const BUSY: f64 = 0.5;
/// The load of a build is forgotten by then.
const PATIENCE: Duration = Duration::from_secs(180);

/// Not for ever: a machine may have other things to do.
pub(super) fn wait_for_rest() -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while load()? > BUSY && Instant::now() < deadline {
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

pub(super) fn describe(binary: &Path) -> Result<Machine> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let processors = thread::available_parallelism().context("cannot count the processors")?;
    let kibibytes: u64 = field("/proc/meminfo", "MemTotal")?.trim_end_matches(" kB").parse().context("odd MemTotal")?;
    let size = fs::metadata(binary).with_context(|| format!("cannot find {}", binary.display()))?.len();
    Ok(Machine {
        command: format!("cargo xtask {}", words.join(" ")),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        processors: format!("{processors} × {}", field("/proc/cpuinfo", "model name")?),
        memory: format!("{:.1} GiB", kibibytes as f64 / (1024.0 * 1024.0)),
        date: process::output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?.trim().to_owned(),
        load: load()?,
        binary: format!("{} of {:.1} MB", binary.display(), size as f64 / 1e6),
    })
}

fn field(file: &str, name: &str) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    value.map(|value| value.trim().to_owned()).with_context(|| format!("{file} has no {name}"))
}

fn load() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg").context("cannot read the load")?;
    text.split(' ').next().and_then(|load| load.parse().ok()).context("odd /proc/loadavg")
}
