//! Reading and writing through a mount: the sandbox should be nowhere in the way. Native and sandboxed bindfs serve the same
//! directory at the same time, and fio uses them in turn.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use shorefast_tests::Host;

use super::calm::Calm;
use super::filesystem::Filesystem;
use super::numbers::{Goal, Measured, NATIVE, SHOREFAST, Series, Unit, paired_ratio};
use super::way::Way;
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

pub(super) fn measure(host: &Host, n: usize) -> Result<Measured> {
    let calm = Calm::now();
    let filesystem = Filesystem::bindfs(host);
    prepare(&Path::new(&filesystem.source).join(FILE)).context("cannot prepare the file")?;
    let targets = [(NATIVE, host.directory("native")), (SHOREFAST, host.directory("shorefast"))];
    let [native, shorefast] = [Way::native(&filesystem, &targets[0].1), Way::shorefast(host, &filesystem, &targets[1].1)];
    let live = [native.mount()?, shorefast.mount()?];

    let mut series = Vec::new();
    let mut goals = Vec::new();
    for pattern in &PATTERNS {
        let mut pair = [Series::new(pattern.name, NATIVE), Series::new(pattern.name, SHOREFAST)];
        for round in 0..=n {
            for turn in 0..2 {
                let index = (round + turn) % 2;
                let value = pattern.run(&targets[index].1)?;
                if round > 0 {
                    pair[index].values.push(value); // the first round only warms up
                }
            }
        }
        eprintln!("{}: {n} rounds", pattern.name);
        let (reached, limit) = paired_ratio(&pair[1], &pair[0]);
        goals.push(Goal { what: format!("{}: shorefast ÷ native", pattern.name), reached, limit, unit: "×".to_owned() });
        series.extend(pair);
    }
    live.into_iter().try_for_each(|live| live.end())?;
    calm.wait()?;
    Ok(Measured {
        title: "Data: reading and writing through bindfs".to_owned(),
        note: "Mean time of one read or write in a run of fio (direct, one at a time); the goal compares round by round, with \
               the interval of 95 % for the median."
            .to_owned(),
        unit: Unit::Microseconds,
        series,
        goals,
    })
}

/// Everybody may write to it: a client without privilege is nobody in particular.
fn prepare(file: &Path) -> io::Result<()> {
    fs::write(file, vec![b'x'; FILE_SIZE])?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o666))
}

impl Pattern {
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
