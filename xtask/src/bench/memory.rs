//! The processes that live as long as a mount, besides the client's own daemon, measured by memory that they do not share.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use shorefast_tests::Host;
use shorefast_tests::processes::Process;

use super::calm::Calm;
use super::filesystem::Filesystem;
use super::numbers::{Goal, Limit, Measured, Series, Unit};
use super::way::Way;

const MOUNTS: usize = 200;
/// What is measured are mounts that just live, not the last one's beginning.
const SETTLED: Duration = Duration::from_secs(1);

pub(super) fn measure(host: &Host) -> Result<Measured> {
    let calm = Calm::now();
    let filesystem = Filesystem::bindfs(host);
    let ways: Vec<_> = (0..MOUNTS).map(|n| Way::shorefast(host, &filesystem, &host.directory(format!("target-{n}")))).collect();
    let live = ways.iter().map(Way::mount).collect::<Result<Vec<_>>>()?;
    eprintln!("{MOUNTS} mounts are live");
    thread::sleep(SETTLED);
    let series = beside_the_daemons(&calm, filesystem.name)?;
    live.into_iter().try_for_each(|live| live.end())?;
    calm.wait()?;

    let total: f64 = series.iter().flat_map(|series| &series.values).sum();
    Ok(Measured {
        title: format!("Memory: {MOUNTS} live bindfs mounts"),
        note: "Proportional set size (PSS) of every process but the clients' daemons.".to_owned(),
        unit: Unit::Kilobytes,
        series,
        goals: vec![Goal {
            what: "memory beside the daemon, per mount".to_owned(),
            reached: total / MOUNTS as f64,
            limit: Limit::AtMost(150.0),
            unit: "kB".to_owned(),
        }],
    })
}

/// Every new process counts, whatever it is, unless it is a client's daemon.
fn beside_the_daemons(calm: &Calm, daemon: &str) -> Result<Vec<Series>> {
    let mut by_name = BTreeMap::new();
    for process in calm.newcomers() {
        let name = name(&process);
        if name != daemon {
            let series = by_name.entry(name).or_insert_with_key(|name| Series::new("process", name));
            series.values.push(proportional_set_size(&process)?);
        }
    }
    Ok(by_name.into_values().collect())
}

/// The first word of its command line: what it calls itself.
fn name(process: &Process) -> String {
    let words = fs::read(process.file("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(words.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// In kB.
pub(super) fn proportional_set_size(process: &Process) -> Result<f64> {
    let path = process.file("smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let size = text.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB"));
    size.and_then(|size| size.parse().ok()).with_context(|| format!("{} has no Pss", path.display()))
}
