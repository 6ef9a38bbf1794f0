//! `cargo xtask dead-servers`: what becomes of mounts whose server dies, stops or vanishes, for FUSE clients on this machine and for
//! kernel clients on each guest kernel, as one table of measured times.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use crate::guest::Guest;
use crate::kernels::{self, KERNELS};
use crate::parallel::in_parallel;
use crate::{matrix, process, setup};

/// Precedes a row in what the tests print: client, what happened when, what was done, how long it took, how it ended.
const ROW: &str = "dead: ";

/// Those clients are the kernel's.
const OF_KERNELS: [&str; 2] = ["thorough_of_cifs", "thorough_of_nfs"];

/// Their short form, for `cargo xtask test`.
const SHORT: [&str; 2] = ["a_paused_cifs_server", "an_nfs_server_that_is_cut_off"];

const GUEST_SECONDS: u32 = 900;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Kernel clients on these kernels only, such as 6.12; can be given several times
    #[arg(short, long)]
    kernel: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    setup::run()?;
    kernels::run()?;
    process::show(Command::new("cargo").args(["build", "--quiet", "--workspace", "--all-targets"]))?;
    let program = matrix::programs(|name| name == "dead")?.concat();
    matrix::make_images()?;
    let arguments = ["--include-ignored", "--nocapture", "--color=never"];
    let skip: Vec<_> = OF_KERNELS.iter().chain(&SHORT).flat_map(|name| ["--skip", name]).collect();
    let mut rows = vec![on_this_machine(&program, &[&arguments[..], &["--test-threads=4"], &skip].concat())?];
    let words: Vec<_> =
        [&[program.as_str()][..], &arguments, &["--test-threads=1"], &OF_KERNELS].concat().into_iter().map(str::to_owned).collect();
    let versions: Vec<_> = KERNELS.iter().map(|kernel| kernel.version).filter(|version| matrix::is_wanted(&args.kernel, version)).collect();
    rows.extend(in_parallel(&versions, |version| in_guest(version, &words)).into_iter().collect::<Result<Vec<_>>>()?);

    println!("| kernel | client | server | what | time | how |\n|---|---|---|---|---|---|");
    rows.iter().flat_map(|ran| &ran.rows).for_each(|row| println!("| {row} |"));
    let slow: Vec<_> = rows.iter().flat_map(|ran| &ran.rows).filter(|row| !is_fast_enough(row)).collect();
    slow.iter().for_each(|row| eprintln!("too slow: {row}"));
    Ok(if slow.is_empty() && rows.iter().all(|ran| ran.is_good) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Ten seconds for everything; a tenth of one for `list`, but not on a guest's slow processor.
fn is_fast_enough(row: &str) -> bool {
    let fields: Vec<_> = row.split(" | ").collect();
    let [kernel, _, _, what, took, ..] = fields[..] else { return false };
    let seconds: f64 = took.trim_end_matches(" s").parse().unwrap_or(f64::INFINITY);
    seconds <= if what == "list" && kernel == HERE { 0.1 } else { 10.0 }
}

/// This machine's kernel.
const HERE: &str = "here";

struct Ran {
    rows: Vec<String>,
    is_good: bool,
}

fn on_this_machine(program: &str, arguments: &[&str]) -> Result<Ran> {
    let mut child =
        Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start the tests")?;
    let output = BufReader::new(child.stdout.take().context("the tests have no output")?);
    let mut rows = Vec::new();
    for line in output.lines() {
        let line = line.context("cannot read the tests' output")?;
        eprintln!("{line}");
        rows.extend(row(HERE, &line));
    }
    let is_good = child.wait().context("cannot wait for the tests")?.success();
    Ok(Ran { rows, is_good })
}

fn in_guest(version: &str, words: &[String]) -> Result<Ran> {
    let guest = Guest { kernel: version, memory: "1536M", timeout_seconds: GUEST_SECONDS };
    let mut rows = Vec::new();
    let status = guest.run(words, |line| {
        let line = String::from_utf8_lossy(line);
        eprint!("[{version}] {line}");
        rows.extend(row(version, line.trim_end()));
    })?;
    Ok(Ran { rows, is_good: status == Some(0) })
}

/// The test runner's own words may stand before it on the line.
fn row(kernel: &str, line: &str) -> Option<String> {
    let (_, row) = line.split_once(ROW)?;
    Some(format!("{kernel} | {}", row.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_behind_the_runners_words() {
        let row = |line| row("6.1", line);
        let expected = Some("6.1 | cifs | server killed before | mount | 0.10 s | failed".to_owned());
        assert_eq!(row("test x ... dead: cifs | server killed before | mount | 0.10 s | failed"), expected);
        assert_eq!(row("test x ... ok"), None);
    }

    #[test]
    fn what_takes_too_long_is_seen() {
        let rows = [
            ("here | sshfs | server paused after | umount | 9.99 s | politely", true),
            ("here | sshfs | server paused after | umount | 10.01 s | politely", false),
            ("here | sshfs | server paused after | list | 0.11 s | ", false),
            ("6.1 | cifs | server paused after | list | 0.11 s | ", true),
            ("something else", false),
        ];
        for (row, expected) in rows {
            assert_eq!(is_fast_enough(row), expected, "{row}");
        }
    }
}
