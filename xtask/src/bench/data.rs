//! Reading and writing through a mount: the sandbox should be nowhere in the way. In each round the ways mount the same directory
//! anew, since no two processes lie in memory alike, and fio uses their mounts in turn.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;
use shorefast_tests::Host;

use super::calm::Calm;
use super::filesystem::Filesystem;
use super::numbers::{Goal, Interval, Limit, Measured, SHOREFAST, Series, Unit, paired_ratio};
use super::rounds;
use super::way::{Live, Way};
use crate::process;

const FILE: &str = "data";
const FILE_SIZE: usize = 64 << 20;

struct Pattern {
    name: &'static str,
    /// fio's name for it, and where its numbers are in fio's answer.
    rw: &'static str,
    direction: &'static str,
    block: &'static str,
    /// What one run reads or writes: it takes about a tenth of a second.
    amount: &'static str,
}

const PATTERNS: [Pattern; 4] = [
    Pattern { name: "sequential read, 128 KiB", rw: "read", direction: "read", block: "128k", amount: "256m" },
    Pattern { name: "sequential write, 128 KiB", rw: "write", direction: "write", block: "128k", amount: "256m" },
    Pattern { name: "random read, 4 KiB", rw: "randread", direction: "read", block: "4k", amount: "20m" },
    Pattern { name: "random write, 4 KiB", rw: "randwrite", direction: "write", block: "4k", amount: "20m" },
];

/// The most calls for the least work, where the scheduler wants it: the same mount takes twice as long in one run as in another.
const ANYWHERE: Pattern = Pattern { name: "random read, 4 KiB, any processor", ..PATTERNS[2] };

pub(super) fn measure(host: &Host, n: usize) -> Result<Measured> {
    let filesystem = Filesystem::bindfs(host);
    prepare(&Path::new(&filesystem.source).join(FILE)).context("cannot prepare the file")?;
    let targets = ["native", "again", "filtered", "shorefast"].map(|name| host.directory(name));
    let native = Way::native(&filesystem, &targets[0]);
    let native_again = Way::native_again(&filesystem, &targets[1]);
    let filtered = Way::filtered(&filesystem, &targets[2])?;
    let shorefast = Way::shorefast(host, &filesystem, &targets[3]);

    let for_comparison = |noise| Limit::None(Some(noise));
    let mut series = ANYWHERE.measure(&[&native, &native_again, &shorefast], n)?;
    let mut goals = compare(&series, |_, noise| for_comparison(noise));
    stay_on_one_processor().context("cannot stay on one processor")?;
    for pattern in &PATTERNS {
        let measured = pattern.measure(&[&native, &filtered, &shorefast], n)?;
        goals.extend(compare(&measured, |way, noise| if way == SHOREFAST { Limit::OneWithinNoise(noise) } else { for_comparison(noise) }));
        series.extend(measured);
    }
    Ok(Measured {
        title: "Data: reading and writing through bindfs".to_owned(),
        note: "Mean time of one read or write in a run of fio (direct, one at a time); the goals compare round by round, with \
               the interval of 95 % for the median. fio and the daemons are on one processor, where the luck of who runs where \
               is left out; how much it is, native says against itself on any processor. `filtered` is the host's own bindfs \
               under a seccomp filter that allows everything."
            .to_owned(),
        unit: Unit::Microseconds,
        series,
        goals,
    })
}

/// Each way with the first.
fn compare(measured: &[Series], limit: impl Fn(&str, Interval) -> Limit) -> Vec<Goal> {
    let (base, others) = measured.split_first().expect("something was measured");
    let compare = |other: &Series| {
        let (reached, noise) = paired_ratio(other, base);
        let what = format!("{}: {} ÷ {}", other.what, other.way, base.way);
        Goal { what, reached, limit: limit(&other.way, noise), unit: "×".to_owned() }
    };
    others.iter().map(compare).collect()
}

/// With all that we start from now on.
fn stay_on_one_processor() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut one = CpuSet::new();
    // Not the first if there are others: it handles most interrupts.
    (0..CpuSet::MAX_CPU).rev().find(|processor| allowed.is_set(*processor)).into_iter().for_each(|last| one.set(last));
    Ok(sched_setaffinity(None, &one)?)
}

/// Every user may write to it: a client without privilege is an arbitrary user.
fn prepare(file: &Path) -> io::Result<()> {
    fs::write(file, vec![b'x'; FILE_SIZE])?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o666))
}

impl Pattern {
    fn measure(&self, ways: &[&Way], n: usize) -> Result<Vec<Series>> {
        let calm = Calm::now();
        let mut series: Vec<_> = ways.iter().map(|way| Series::new(self.name, way.name)).collect();
        for round in 0..=n {
            let live = ways.iter().map(|way| way.mount()).collect::<Result<Vec<_>>>()?;
            for index in rounds::order(round, (0..ways.len()).collect()) {
                let value = self.run(ways[index].target())?;
                if round > 0 {
                    series[index].values.push(value); // the first round only warms up
                }
            }
            live.into_iter().try_for_each(Live::end)?;
            calm.wait()?;
        }
        eprintln!("{}: {n} rounds", self.name);
        Ok(series)
    }

    /// The mean time of one operation, in microseconds. Direct, so that every operation asks the daemon.
    fn run(&self, target: &Path) -> Result<f64> {
        let answer = process::output(
            Command::new("fio")
                .args(["--name=bench", "--ioengine=psync", "--direct=1", "--thread", "--disk_util=0", "--output-format=json"])
                .arg(format!("--rw={}", self.rw))
                .arg(format!("--bs={}", self.block))
                .arg(format!("--io_size={}", self.amount))
                .arg(format!("--size={FILE_SIZE}"))
                .arg("--allow_file_create=0")
                .arg(format!("--filename={}", target.join(FILE).display())),
        )?;
        let answer: Value = serde_json::from_str(&answer).context("cannot read fio's answer")?;
        let nanoseconds = answer["jobs"][0][self.direction]["lat_ns"]["mean"].as_f64().context("fio's answer has no latency")?;
        Ok(nanoseconds / 1e3)
    }
}
