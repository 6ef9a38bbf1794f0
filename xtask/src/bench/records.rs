//! What `list`, `inspect`, `umount` and `reconcile` take beside thousands of live mounts, and beside thousands of records.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use shorefast_tests::Host;

use super::calm::Calm;
use super::filesystem::Filesystem;
use super::numbers::{Goal, Limit, Measured, SHOREFAST, Series, Unit};
use super::way::Way;

const FEW: usize = 20;
const MANY: usize = 2_000;
/// Records alone, which are cheaper to have than mounts.
const RECORDS: usize = 10_000;
const TIMES: usize = 20;

/// What is measured, and what it may take beside [`MANY`] mounts, in milliseconds.
const GOALS: [(&str, f64); 4] = [("list", 60.0), ("inspect", 6.0), ("umount", 6.0), ("reconcile", 60.0)];
/// The same of one with a client, which has to end, too.
const OF_FUSE: &str = "umount of a bindfs";

pub(super) fn measure(host: &Host, n: usize) -> Result<Measured> {
    let calm = Calm::now();
    let filesystem = Filesystem::tmpfs();
    let bindfs = Filesystem::bindfs(host);
    Filesystem::obtain_images(host);
    let times = n.min(TIMES);
    let mut live: Vec<PathBuf> = Vec::new();
    let mut series = Vec::new();
    for count in [FEW, MANY] {
        // Those that will be unmounted come on top.
        while live.len() < count + times {
            let target = host.directory(Path::new("records").join(live.len().to_string()));
            // It stays until it is unmounted below.
            std::mem::forget(Way::shorefast(host, &filesystem, &target).mount()?);
            live.push(target);
        }
        eprintln!("{} mounts are live", live.len());
        series.extend(beside(host, &bindfs, count, &mut live, times)?);
    }
    for target in live.drain(..) {
        run(host, &["umount".as_ref(), target.as_os_str()])?;
    }
    calm.wait()?;
    series.push(beside_records(host, times)?);
    let p50 = |what: String| series.iter().find(|series| series.what == what).map_or(f64::NAN, Series::p50);
    let mut goals: Vec<_> = GOALS.iter().map(|(what, limit)| goal(named(what, MANY), p50(named(what, MANY)), *limit, "ms")).collect();
    for what in ["inspect", "umount", OF_FUSE] {
        goals.push(goal(format!("{what}: {MANY} mounts ÷ {FEW}"), p50(named(what, MANY)) / p50(named(what, FEW)), 1.5, "×"));
    }
    goals.push(goal(format!("list, {RECORDS} records"), p50(named_records()), 500.0, "ms"));
    Ok(Measured {
        title: "Records: calls beside many mounts".to_owned(),
        note: format!(
            "From the start of the command to its end, beside {FEW} and {MANY} live tmpfs mounts; umount is of one of them. {RECORDS} records: all of \
             one mount."
        ),
        unit: Unit::Milliseconds,
        series,
        goals,
    })
}

fn goal(what: String, reached: f64, limit: f64, unit: &str) -> Goal {
    Goal { what, reached, limit: Limit::AtMost(limit), unit: unit.to_owned() }
}

fn named(what: &str, count: usize) -> String {
    format!("{what}, {count} mounts")
}

fn named_records() -> String {
    format!("list, {RECORDS} records")
}

fn beside(host: &Host, bindfs: &Filesystem, count: usize, live: &mut Vec<PathBuf>, times: usize) -> Result<Vec<Series>> {
    let mut all: Vec<_> = GOALS.iter().map(|(what, _)| Series::new(&named(what, count), SHOREFAST)).collect();
    for _ in 0..times {
        let target = live.pop().context("there are mounts to unmount")?;
        for (series, (what, _)) in all.iter_mut().zip(GOALS) {
            let of_one = matches!(what, "inspect" | "umount");
            let words = [what.as_ref(), target.as_os_str()];
            series.values.push(run(host, &words[..if of_one { 2 } else { 1 }])?);
        }
    }
    let mut of_fuse = Series::new(&named(OF_FUSE, count), SHOREFAST);
    let target = host.directory("records/fuse");
    for _ in 0..times {
        // Unmounted below.
        std::mem::forget(Way::shorefast(host, bindfs, &target).mount()?);
        of_fuse.values.push(run(host, &["umount".as_ref(), target.as_os_str()])?);
    }
    all.push(of_fuse);
    Ok(all)
}

/// In milliseconds.
fn run(host: &Host, words: &[&std::ffi::OsStr]) -> Result<f64> {
    let mut command = Command::new(host.binary());
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let status = command.status().context("cannot run shorefast")?;
    let took = start.elapsed().as_secs_f64() * 1e3;
    ensure!(status.success(), "shorefast {words:?}: {status}");
    Ok(took)
}

fn beside_records(host: &Host, times: usize) -> Result<Series> {
    let target = host.directory("records/model");
    let filesystem = Filesystem::tmpfs();
    let way = Way::shorefast(host, &filesystem, &target);
    let live = way.mount()?;
    let run_dir = host.run_directory();
    let is_record = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
    let model = fs::read_dir(run_dir)?.filter_map(|entry| Some(entry.ok()?.path())).find(is_record).context("a mount has a record")?;
    let model: serde_json::Value = serde_json::from_slice(&fs::read(model)?)?;
    let files: Vec<_> = (0..RECORDS).map(|number| run_dir.join(format!("m0001-{number:012x}.json"))).collect();
    fs::create_dir_all(run_dir)?;
    for (number, file) in files.iter().enumerate() {
        let mut record = model.clone();
        record["id"] = format!("m0001-{number:012x}").into();
        fs::write(file, record.to_string())?;
    }
    let mut series = Series::new(&named_records(), SHOREFAST);
    for _ in 0..times {
        series.values.push(run(host, &["list".as_ref()])?);
    }
    files.iter().try_for_each(fs::remove_file)?;
    live.end()?;
    Ok(series)
}
