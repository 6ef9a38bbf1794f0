//! How many mounts a process that lives on can ask for: threads that mount and unmount, each time through a worker; beside as many threads that run
//! the host's own client and umount.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use shorefast_engine::unmount::Manner;
use shorefast_engine::{Installation, Request};
use shorefast_tests::Host;
use shorefast_tests::client::store;
use shorefast_worker::{Answer, Operation, Workers};

use super::calm::Calm;
use super::filesystem::Filesystem;
use super::numbers::{Goal, Limit, Measured, NATIVE, SHOREFAST, Series, Unit, ratio};

const THREADS: usize = 32;
const WHAT: &str = "bindfs, 32 threads, per mount and umount";

pub(super) fn measure(host: &Host, n: usize) -> Result<Measured> {
    let filesystem = Filesystem::bindfs(host);
    let targets: Vec<_> = (0..THREADS).map(|number| host.directory(Path::new("workers").join(number.to_string()))).collect();
    let installation = Installation { run_dir: host.run_directory().into(), root: store(), ..Installation::default() };
    let workers = Workers::of(File::open(host.binary())?, installation);
    let ours = |target: &Path| asked(&workers, &filesystem, target);
    let native = |target: &Path| natively(&filesystem, target);
    let calm = Calm::now();
    let mut series = [Series::new(WHAT, NATIVE), Series::new(WHAT, SHOREFAST)];
    for _ in 0..n {
        series[0].values.push(round(&targets, &native)?);
        calm.wait()?;
        series[1].values.push(round(&targets, &ours)?);
        calm.wait()?;
    }
    let per_second = |series: &Series| 1e3 / series.p50();
    let rate = |way: &str, series: &Series| Goal {
        what: format!("mounts per second, {way}"),
        reached: per_second(series),
        limit: Limit::None(None),
        unit: String::new(),
    };
    let mut goals = vec![rate(NATIVE, &series[0]), rate(SHOREFAST, &series[1])];
    let ratio = ratio(&series, WHAT, SHOREFAST, NATIVE);
    goals.push(Goal { what: "shorefast ÷ native".to_owned(), reached: ratio, limit: Limit::None(None), unit: "×".to_owned() });
    Ok(Measured {
        title: "Workers: mounts that a server asks for".to_owned(),
        note: format!("The time of a round of {THREADS} threads, each of which mounts and unmounts once, divided by {THREADS}."),
        unit: Unit::Milliseconds,
        series: series.into(),
        goals,
    })
}

/// Milliseconds per mount.
fn round(targets: &[PathBuf], one: &(impl Fn(&Path) -> Result<()> + Sync)) -> Result<f64> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = targets.iter().map(|target| scope.spawn(move || one(target))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a measuring thread does not panic"))
    })?;
    Ok(start.elapsed().as_secs_f64() * 1e3 / targets.len() as f64)
}

fn asked(workers: &Workers, filesystem: &Filesystem, target: &Path) -> Result<()> {
    let deadline = || Instant::now() + Duration::from_secs(60);
    let request = Request { fstype: Some(filesystem.name.to_owned()), ..Request::new(&filesystem.source, target) };
    match workers.ask(Operation::Mount(Box::new(request)), &[], deadline()).result {
        Ok(Answer::Mounted(_)) => {}
        other => bail!("not mounted: {other:?}"),
    }
    let umount = Operation::Unmount { target: target.into(), manner: Manner::Polite };
    match workers.ask(umount, &[], deadline()).result {
        Ok(Answer::Unmounted(_)) => Ok(()),
        other => bail!("not unmounted: {other:?}"),
    }
}

fn natively(filesystem: &Filesystem, target: &Path) -> Result<()> {
    let run = |words: &[std::ffi::OsString]| -> Result<()> {
        let status = Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).status().context("cannot start a command")?;
        ensure!(status.success(), "{words:?}: {status}");
        Ok(())
    };
    run(&filesystem.native(target))?;
    run(&["umount".into(), target.into()])
}
