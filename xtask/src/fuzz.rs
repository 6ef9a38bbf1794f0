//! `cargo xtask fuzz`: builds the fuzz targets with coverage counters and runs them one after the other. Needs no nightly compiler
//! and no cargo-fuzz: the counters are a stable flag, and our parsers have no `unsafe` that a sanitizer could watch.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::process;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this target
    target: Option<String>,
    /// Executions of each target
    #[arg(long, default_value_t = 10_000_000)]
    runs: u64,
}

const DIRECTORY: &str = "fuzz";

/// What libFuzzer counts and compares; `--cfg fuzzing` is its convention.
const FLAGS: [&str; 7] = [
    "--cfg=fuzzing",
    "-Ccodegen-units=1",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Every input that was ever interesting fits; the header of an archive alone has 512 bytes.
const LONGEST_INPUT: u32 = 2048;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let all = targets()?;
    let chosen: Vec<_> = all.iter().filter(|name| args.target.as_ref().is_none_or(|wanted| wanted == *name)).collect();
    ensure!(!chosen.is_empty(), "no such target; there are {}", all.join(", "));
    let programs = build()?;

    println!("{:<12} {:>12} {:>9} {:>10}  crashes", "target", "executions", "seconds", "inputs");
    let mut crashed = false;
    for name in chosen {
        let outcome = fuzz(name, &programs, args.runs)?;
        crashed |= outcome.crash.is_some();
        println!("{name:<12} {outcome}");
    }
    Ok(if crashed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A target is a file in fuzz_targets.
fn targets() -> Result<Vec<String>> {
    let directory = Path::new(DIRECTORY).join("fuzz_targets");
    let entries = fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let name = |entry: fs::DirEntry| entry.path().file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut names: Vec<_> = entries.filter_map(Result::ok).filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// For an explicit target, so that build scripts are not instrumented.
fn build() -> Result<PathBuf> {
    let machine = process::output(Command::new("rustc").args(["--print", "host-tuple"]))?;
    let machine = machine.trim();
    process::show(
        process::cargo()
            .args(["build", "--quiet", "--release", "--target", machine, "--manifest-path"])
            .arg(Path::new(DIRECTORY).join("Cargo.toml"))
            .arg("--target-dir")
            .arg(Path::new(DIRECTORY).join("target"))
            .env("RUSTFLAGS", FLAGS.join(" ")),
    )?;
    Ok(Path::new(DIRECTORY).join("target").join(machine).join("release"))
}

struct Outcome {
    executions: u64,
    seconds: u64,
    inputs: usize,
    /// Where the input that crashed it is, or what it said.
    crash: Option<String>,
}

fn fuzz(name: &str, programs: &Path, runs: u64) -> Result<Outcome> {
    let found = Path::new(DIRECTORY).join("target/corpus").join(name);
    let artifacts = Path::new(DIRECTORY).join("artifacts").join(name);
    for directory in [&found, &artifacts] {
        fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    }
    let log_path = Path::new(DIRECTORY).join("target").join(name).with_extension("log");
    let log = File::create(&log_path).with_context(|| format!("cannot create {}", log_path.display()))?;
    let started = Instant::now();
    // What is found goes into the first corpus; the second, kept in the repository, is only read.
    let status = Command::new(programs.join(name))
        .arg(format!("-runs={runs}"))
        .arg(format!("-max_len={LONGEST_INPUT}"))
        .args(["-timeout=10", "-print_final_stats=1"])
        .arg(format!("-dict={}", Path::new(DIRECTORY).join("dictionaries").join(name).with_extension("dict").display()))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(&found)
        .arg(Path::new(DIRECTORY).join("corpus").join(name))
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("cannot share a log")?)
        .stderr(log)
        .status()
        .with_context(|| format!("cannot start the target {name}"))?;
    let said = String::from_utf8_lossy(&fs::read(&log_path)?).into_owned();
    Ok(Outcome {
        executions: executions(&said),
        seconds: started.elapsed().as_secs(),
        inputs: fs::read_dir(&found).map_or(0, Iterator::count),
        crash: (!status.success()).then(|| artifact(&said).unwrap_or_else(|| format!("{status}, see {}", log_path.display()))),
    })
}

fn executions(said: &str) -> u64 {
    let count = said.lines().rev().find_map(|line| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok());
    count.unwrap_or(0)
}

fn artifact(said: &str) -> Option<String> {
    said.lines().find_map(|line| line.split_once("Test unit written to ").map(|(_, path)| path.to_owned()))
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let crashes = self.crash.as_ref().map_or_else(|| "0".to_owned(), |path| format!("1: {path}"));
        write!(out, "{:>12} {:>9} {:>10}  {crashes}", self.executions, self.seconds, self.inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_libfuzzer_says() {
        let said = "artifact_prefix='a/'; Test unit written to a/crash-1\nstat::number_of_executed_units: 1234\nstat::new_units_added: 5\n";
        assert_eq!((executions(said), artifact(said).as_deref()), (1234, Some("a/crash-1")));
        assert_eq!((executions("killed"), artifact("killed")), (0, None));
    }
}
