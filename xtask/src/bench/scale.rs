//! Many mounts: a host whose table is long, many live mounts of ours, many started at once.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use shorefast_tests::Host;

use super::calm::Calm;
use super::crowd::{Crowd, Where};
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
    let (mut series, mut goals) = (Vec::new(), Vec::new());
    for place in Where::ALL {
        series.extend(in_a_crowd(host, &filesystem, place, n)?);
        goals.push(growth(&series, place));
    }
    let live = many_live(host, &filesystem)?;
    let (at_once, fewest_at_once) = many_at_once(host, &filesystem)?;
    goals.extend([
        all_succeed(format!("{LIVE} live mounts"), live.values.len(), LIVE),
        all_succeed(format!("{AT_ONCE} mounts started at once, {TIMES_AT_ONCE} times"), fewest_at_once, AT_ONCE),
    ]);
    series.extend([live, at_once]);
    Ok(Measured {
        title: "Scale: many mounts".to_owned(),
        note: format!(
            "From the start of the command until the mount can be used: with {FEW} and {MANY} mounts on the host, in different places, \
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

/// The goal is for mounts that have nothing to do with ours. Peers of the target's are the kernel's own price, which a native mount pays
/// as well; and a host with thousands beside the images can give these a mount of their own.
fn growth(series: &[Series], place: Where) -> Goal {
    let growth = |way| {
        let p50 = |mounts| find(series, &crowded(mounts, place), way).map_or(f64::NAN, Series::p50);
        p50(MANY) / p50(FEW)
    };
    Goal {
        what: format!("bindfs: {MANY} mounts {} ÷ {FEW} (native: {:.2} ×)", place.words(), growth(NATIVE)),
        reached: growth(SHOREFAST),
        limit: match place {
            Where::Elsewhere | Where::BesideImagesApart => Limit::AtMost(1.2),
            Where::BesideImages | Where::PeersOfTarget => Limit::None(None),
        },
        unit: "×".to_owned(),
    }
}

fn crowded(mounts: usize, place: Where) -> String {
    format!("bindfs, {mounts} mounts {}", place.words())
}

/// Blocks of rounds, with few and many mounts in turn.
fn in_a_crowd(host: &Host, filesystem: &Filesystem, place: Where, n: usize) -> Result<Vec<Series>> {
    let target = host.directory("target");
    let ways = [Way::native(filesystem, &target), Way::shorefast(host, filesystem, &target)];
    let mut all: Vec<Series> = Vec::new();
    for _ in 0..BLOCKS.min(n) {
        for mounts in [FEW, MANY] {
            let _crowd = Crowd::gather(mounts, place, host)?;
            for series in rounds::run(&crowded(mounts, place), &ways, n.div_ceil(BLOCKS))? {
                match all.iter_mut().find(|known| (&known.what, &known.way) == (&series.what, &series.way)) {
                    Some(known) => known.values.extend(series.values),
                    None => all.push(series),
                }
            }
        }
    }
    Ok(all)
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
