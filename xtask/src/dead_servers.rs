//! `cargo xtask dead-servers`: what becomes of mounts whose server dies, stops or vanishes, for FUSE clients on this machine and for
//! kernel clients on each guest kernel, as one table of measured times.

use std::collections::BTreeSet;
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
    process::show(process::cargo().args(["build", "--quiet", "--workspace", "--all-targets"]))?;
    let program = matrix::programs(|name| name == "dead")?.concat();
    matrix::make_images()?;
    let arguments = ["--include-ignored", "--nocapture", "--color=never"];
    let skip: Vec<_> = OF_KERNELS.iter().chain(&SHORT).flat_map(|name| ["--skip", name]).collect();
    let mut rows = vec![on_this_machine(&program, &[&arguments[..], &["--test-threads=4"], &skip].concat())?];
    let words: Vec<_> =
        [&[program.as_str()][..], &arguments, &["--test-threads=1"], &OF_KERNELS].concat().into_iter().map(str::to_owned).collect();
    let versions: Vec<_> = KERNELS.iter().map(|kernel| kernel.version).filter(|version| matrix::is_wanted(&args.kernel, version)).collect();
    rows.extend(in_parallel(&versions, |version| in_guest(version, &words)).into_iter().collect::<Result<Vec<_>>>()?);

    let all: Vec<_> = rows.iter().flat_map(|ran| &ran.rows).collect();
    print!("{}", table(&all));
    let slow: Vec<_> = all.iter().filter(|row| !row.is_fast_enough()).collect();
    slow.iter().for_each(|row| eprintln!("too slow: {row:?}"));
    Ok(if slow.is_empty() && rows.iter().all(|ran| ran.is_good) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What was measured once.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    kernel: String,
    client: String,
    /// Such as `server paused`, and `before`.
    fault: String,
    when: String,
    what: String,
    seconds: f64,
    how: String,
}

impl Row {
    /// The test runner's own words may stand before it on the line.
    fn read(kernel: &str, line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split_once(ROW)?.1.trim_end().split(" | ").collect();
        let [client, happened, what, took, how] = fields[..] else { return None };
        let (fault, when) = happened.rsplit_once(' ')?;
        let seconds = took.strip_suffix(" s")?.parse().ok()?;
        let [kernel, client, fault, when, what, how] = [kernel, client, fault, when, what, how].map(str::to_owned);
        Some(Self { kernel, client, fault, when, what, seconds, how })
    }

    /// Ten seconds for everything; a tenth of one for `list`, but not on a guest's slow processor.
    fn is_fast_enough(&self) -> bool {
        self.seconds <= if self.what == "list" && self.kernel == HERE { 0.1 } else { 10.0 }
    }
}

/// When something is done, what, and how the table calls it.
const COLUMNS: [(&str, &str, &str); 6] = [
    ("before", "mount", "mount, it happened before"),
    ("during", "mount", "mount, it happens meanwhile"),
    ("after", "list", "list"),
    ("after", "umount", "umount"),
    ("after", "umount --force", "then umount --force"),
    ("after", "kill of a process in it", "SIGKILL for a process in it"),
];

/// A line per client and fault.
fn table(rows: &[&Row]) -> String {
    let names = COLUMNS.map(|(_, _, name)| name).join(" | ");
    let mut text = format!("| kernel | client | what happens | {names} |\n|{}\n", "---|".repeat(3 + COLUMNS.len()));
    let lines: BTreeSet<_> = rows.iter().map(|row| (&row.client, &row.fault, &row.kernel)).collect();
    for (client, fault, kernel) in lines {
        let of_line = || rows.iter().filter(|row| (&row.client, &row.fault, &row.kernel) == (client, fault, kernel));
        let cell = |(when, what, _): (&str, &str, &str)| {
            let row = of_line().find(|row| row.when == when && row.what == what);
            row.map(|row| format!("{:.2} s: {}", row.seconds, row.how)).unwrap_or_default()
        };
        text += &format!("| {kernel} | {client} | {fault} | {} |\n", COLUMNS.map(cell).join(" | "));
    }
    text
}

/// This machine's kernel.
const HERE: &str = "here";

struct Ran {
    rows: Vec<Row>,
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
        rows.extend(Row::read(HERE, &line));
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
        rows.extend(Row::read(version, &line));
    })?;
    Ok(Ran { rows, is_good: status == Some(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kernel: &str, line: &str) -> Row {
        Row::read(kernel, &format!("test x ... {ROW}{line}\n")).unwrap()
    }

    #[test]
    fn what_takes_too_long_is_seen() {
        let rows = [
            ("here", "sshfs | server paused after | umount | 9.99 s | politely", true),
            ("here", "sshfs | server paused after | umount | 10.01 s | politely", false),
            ("here", "sshfs | server paused after | list | 0.11 s | answers", false),
            ("6.1", "cifs | server paused after | list | 0.11 s | answers", true),
        ];
        for (kernel, line, expected) in rows {
            assert_eq!(row(kernel, line).is_fast_enough(), expected, "{line}");
        }
        assert_eq!(Row::read("6.1", "test x ... ok"), None);
    }

    #[test]
    fn a_client_and_what_happens_to_it_are_one_line() {
        let rows = [
            row("6.1", "cifs | server killed before | mount | 0.10 s | failed"),
            row("6.1", "cifs | server killed after | list | 0.01 s | answers"),
        ];
        let table = table(&rows.iter().collect::<Vec<_>>());
        assert!(table.ends_with("| 6.1 | cifs | server killed | 0.10 s: failed |  | 0.01 s: answers |  |  |  |\n"), "{table}");
        assert_eq!(table.lines().count(), 3);
    }
}
