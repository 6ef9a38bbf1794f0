//! Many mounts: a host whose table is long, many live mounts of ours, many started at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount};
use shorefast_tests::{Host, mountinfo};

use super::calm::Calm;
use super::filesystem::Filesystem;
use super::numbers::{Goal, Limit, Measured, NATIVE, SHOREFAST, Series, Unit, find};
use super::rounds;
use super::way::Way;

const FEW: usize = 50;
const MANY: usize = 5_000;
/// The table changes this often between long and short.
const BLOCKS: usize = 10;
const LIVE: usize = 1_000;
const AT_ONCE: usize = 100;
const TIMES_AT_ONCE: usize = 10;

pub(super) fn measure(host: &Host, n: usize) -> Result<Measured> {
    let filesystem = Filesystem::bindfs(host);
    let mut series = with_long_tables(host, &filesystem, n)?;
    let p50 = |mounts, way| find(&series, &table_of(mounts), way).map_or(f64::NAN, Series::p50);
    let growth = p50(MANY, SHOREFAST) / p50(FEW, SHOREFAST);
    let native_growth = p50(MANY, NATIVE) / p50(FEW, NATIVE);
    let live = many_live(host, &filesystem)?;
    let (at_once, fewest_at_once) = many_at_once(host, &filesystem)?;
    let goals = vec![
        Goal {
            what: format!("bindfs: {MANY} mounts on the host ÷ {FEW} (native: {native_growth:.2} ×)"),
            reached: growth,
            limit: Limit::AtMost(1.2),
            unit: "×".to_owned(),
        },
        all_succeed(format!("{LIVE} live mounts"), live.values.len(), LIVE),
        all_succeed(format!("{AT_ONCE} mounts started at once, {TIMES_AT_ONCE} times"), fewest_at_once, AT_ONCE),
    ];
    series.extend([live, at_once]);
    Ok(Measured {
        title: "Scale: many mounts".to_owned(),
        note: format!(
            "From the start of the command until the mount can be used: with {FEW} and {MANY} mounts on the host, \
             and while {LIVE} are made one after the other and stay. With {AT_ONCE} started at once: until the last is there."
        ),
        unit: Unit::Milliseconds,
        series,
        goals,
    })
}

fn all_succeed(what: String, succeeded: usize, wanted: usize) -> Goal {
    Goal { what, reached: succeeded as f64, limit: Limit::AtLeast(wanted as f64), unit: String::new() }
}

fn table_of(mounts: usize) -> String {
    format!("bindfs, {mounts} mounts on the host")
}

/// Blocks of rounds, with the short and the long table in turn.
fn with_long_tables(host: &Host, filesystem: &Filesystem, n: usize) -> Result<Vec<Series>> {
    let target = host.directory("target");
    let ways = [Way::native(filesystem, &target), Way::shorefast(host, filesystem, &target)];
    let mut all: Vec<Series> = Vec::new();
    for _ in 0..BLOCKS.min(n) {
        for mounts in [FEW, MANY] {
            let _fillers = Fillers::up_to(mounts, host)?;
            for series in rounds::run(&table_of(mounts), &ways, n.div_ceil(BLOCKS))? {
                match all.iter_mut().find(|known| (&known.what, &known.way) == (&series.what, &series.way)) {
                    Some(known) => known.values.extend(series.values),
                    None => all.push(series),
                }
            }
        }
    }
    Ok(all)
}

/// Mounts that are just there, as on a host with many containers. Dropped: gone.
struct Fillers {
    below: PathBuf,
}

impl Fillers {
    fn up_to(mounts: usize, host: &Host) -> Result<Self> {
        let below = PathBuf::from("/run/fillers");
        fs::create_dir_all(&below).context("cannot create a directory")?;
        mount("tmpfs", &below, "tmpfs", MountFlags::empty(), None).context("cannot mount a tmpfs")?;
        let fillers = Self { below };
        mount_change(&fillers.below, MountPropagationFlags::PRIVATE).context("cannot make a tmpfs private")?;
        let source = host.directory("filler");
        let there = mountinfo::here().len();
        ensure!(there <= mounts, "{there} mounts are there, which is more than {mounts}");
        for number in there..mounts {
            let point = fillers.below.join(number.to_string());
            fs::create_dir(&point).context("cannot create a directory")?;
            mount_bind(&source, &point).context("cannot bind a directory")?;
        }
        Ok(fillers)
    }
}

impl Drop for Fillers {
    fn drop(&mut self) {
        // With all that is below it, in one step. Nothing else can be done about a failure; the next `up_to` would tell.
        let _ = unmount(&self.below, UnmountFlags::DETACH);
    }
}

fn many_live(host: &Host, filesystem: &Filesystem) -> Result<Series> {
    let calm = Calm::now();
    let ways = ways(host, filesystem, "live", LIVE);
    let mut series = Series::new(&format!("bindfs, {LIVE} live"), SHOREFAST);
    let mut live = Vec::with_capacity(LIVE);
    for way in &ways {
        match way.mount() {
            Ok(mount) => {
                series.values.push(mount.took.as_secs_f64() * 1e3);
                live.push(mount);
            }
            Err(error) => eprintln!("{error:#}"),
        }
    }
    // Also the first must still be served.
    ensure!(ways.iter().filter(|way| way.is_served()).count() == live.len(), "a live mount is not served any more");
    eprintln!("{} mounts are live", live.len());
    live.into_iter().try_for_each(|live| live.end())?;
    calm.wait()?;
    Ok(series)
}

/// All are started before any is waited for; the time is that until the last is there.
fn many_at_once(host: &Host, filesystem: &Filesystem) -> Result<(Series, usize)> {
    let calm = Calm::now();
    let ways = ways(host, filesystem, "at-once", AT_ONCE);
    let mut series = Series::new(&format!("bindfs, {AT_ONCE} at once"), SHOREFAST);
    let mut fewest = AT_ONCE;
    for _ in 0..TIMES_AT_ONCE {
        let start = Instant::now();
        let children = ways.iter().map(|way| way.command()?.spawn().context("cannot start shorefast")).collect::<Result<Vec<_>>>()?;
        let mut there = 0;
        for (way, mut child) in ways.iter().zip(children) {
            let status = child.wait().context("cannot wait for shorefast")?;
            if status.success() && way.is_served() {
                there += 1;
            } else {
                eprintln!("{status}: {}", way.said());
            }
        }
        series.values.push(start.elapsed().as_secs_f64() * 1e3);
        fewest = fewest.min(there);
        ways.iter().filter(|way| way.is_served()).try_for_each(Way::unmount)?;
        calm.wait()?;
    }
    eprintln!("{AT_ONCE} were started at once, {TIMES_AT_ONCE} times; at least {fewest} were there");
    Ok((series, fewest))
}

fn ways(host: &Host, filesystem: &Filesystem, name: &str, count: usize) -> Vec<Way> {
    let target = |number| host.directory(Path::new(name).join(number));
    (0..count).map(|number| Way::shorefast(host, filesystem, &target(number.to_string()))).collect()
}
