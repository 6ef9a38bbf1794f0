//! `cargo xtask test`: everything that must hold, in one command. Prepares the machine, checks the code, runs the tests here and
//! under each guest kernel, and closes with `N passed, N failed`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, anyhow};

use crate::guest::Guest;
use crate::kernels::KERNELS;
use crate::parallel::in_parallel;
use crate::tally::Tally;
use crate::{generate, kernels, process, setup, static_binary};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this machine's kernel, and no checks of formatting and lints
    #[arg(long)]
    quick: bool,
    /// Also every single row of the hostile client on each guest kernel, which takes minutes more
    #[arg(long)]
    thorough: bool,
    /// Only tests whose name contains this
    filter: Option<String>,
}

/// One guest runs the tests one after the other on one slow core.
const GUEST_SECONDS: u32 = 900;
const GUEST_MEMORY: &str = "1536M";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    setup::run()?;
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    let mut step = |name: &str, result: Result<Tally>| match result {
        Ok(counted) => tally += counted,
        Err(error) => failures.push(format!("{name}: {error:#}")),
    };

    if !args.quick {
        step("formatting", check(&["fmt", "--all", "--check"]));
        step("lints", check(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]));
        step("man pages and completions", generate::check().map(|()| Tally::default()));
        eprintln!("the static binary in an empty directory tree");
        step("static binary", static_binary::check().map(|()| Tally::default()));
    }
    // The end-to-end tests run the binary, and cargo does not know: without this they would run a stale one.
    // All targets, as the test runner will: otherwise cargo gives the dependencies other features, and compiles them once more.
    build_killable()?;
    check(&["build", "--quiet", "--workspace", "--all-targets"])?;
    step("tests", run_here(args));
    if !args.quick {
        kernels::run()?;
        let programs = end_to_end_programs()?;
        let results = in_parallel(&KERNELS, |kernel| run_in_guest(kernel.version, &programs, args));
        KERNELS.iter().zip(results).for_each(|(kernel, result)| step(kernel.version, result));
    }

    for failure in &failures {
        eprintln!("failed: {failure}");
    }
    println!("{tally}");
    let good = failures.is_empty() && tally.failed == 0 && tally.passed > 0;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The binary that can be killed at any named point, beside the normal one. Built in the same place, so that nothing but the
/// engine is compiled twice.
fn build_killable() -> Result<()> {
    check(&["build", "--quiet", "--workspace", "--all-targets", "--features=shorefast/kill-points"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let place = target.join("kill-points/debug");
    fs::create_dir_all(&place).context("cannot make a directory")?;
    fs::copy(target.join("debug/shorefast"), place.join("shorefast")).context("cannot copy the binary")?;
    Ok(())
}

fn check(arguments: &[&str]) -> Result<Tally> {
    eprintln!("cargo {}", arguments.join(" "));
    process::show(Command::new("cargo").args(arguments)).map(|()| Tally::default())
}

fn run_here(args: &Args) -> Result<Tally> {
    let mut command = Command::new("cargo");
    command
        .args(["nextest", "run", "--workspace", "--no-fail-fast", "--no-tests=pass", "--config-file", "tests/nextest.toml"])
        .args(&args.filter);
    count(command)
}

/// The end-to-end programs that have to do with the kernel. Cargo puts a hash into a file name, so it has to be asked.
fn end_to_end_programs() -> Result<Vec<String>> {
    let arguments = ["test", "--quiet", "--workspace", "--all-targets", "--no-run", "--message-format=json"];
    let messages = process::output(Command::new("cargo").args(arguments))?;
    let programs: Vec<_> = messages.lines().filter_map(test_program).collect();
    if programs.is_empty() {
        return Err(anyhow!("cargo built no end-to-end tests"));
    }
    Ok(programs)
}

fn test_program(message: &str) -> Option<String> {
    /// What these look at is the same on every kernel, and slow where there is one processor.
    const SAME_EVERYWHERE: [&str; 5] = ["house", "install", "layers", "packages", "registry"];
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let target = message.get("target")?;
    let is_end_to_end = target.get("src_path")?.as_str()?.contains("/tests/e2e/");
    let concerns_the_kernel = !SAME_EVERYWHERE.contains(&target.get("name")?.as_str()?);
    message.get("executable")?.as_str().filter(|_| is_end_to_end && concerns_the_kernel).map(str::to_owned)
}

fn run_in_guest(version: &str, programs: &[String], args: &Args) -> Result<Tally> {
    eprintln!("guest kernel {version}");
    let guest = Guest { kernel: version, memory: GUEST_MEMORY, timeout_seconds: GUEST_SECONDS };
    let filter = args.filter.iter().map(String::as_str).collect::<Vec<_>>();
    // The native clients proved the scenarios on this machine, and a guest has one processor, where nothing races. A failed
    // program must not hide the others; the counts tell.
    let each = r#"filter=$1 hostile=$2; shift 2; for program; do
        case $program in */hostile-*) rows=$hostile;; *) rows=;; esac
        "$program" --test-threads=1 --color=never --skip natively $filter $rows
    done"#;
    // Rows that have to be run alone are minutes in a guest; the batch holds most of them.
    let hostile = if args.thorough { "" } else { "the_batch" };
    let mut command = vec!["sh".to_owned(), "-c".to_owned(), each.to_owned(), "sh".to_owned(), filter.concat(), hostile.to_owned()];
    command.extend(programs.iter().cloned());

    let mut tally = Tally::default();
    let status = guest.run(&command, |line| {
        let line = String::from_utf8_lossy(line);
        print!("[{version}] {line}");
        tally += Tally::of_line(&line);
    })?;
    status.map(|_| tally).ok_or_else(|| anyhow!("the guest died, {tally} before that"))
}

/// Shows what a test runner prints while it prints it, and adds up its results.
fn count(mut command: Command) -> Result<Tally> {
    let (reader, writer) = std::io::pipe().context("cannot create a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone().context("cannot clone a pipe")?).stderr(writer);
    let mut child = command.spawn().context("cannot start cargo")?;
    drop(command); // it holds the pipe's other end: we would wait for ourselves
    let mut tally = Tally::default();
    for line in BufReader::new(reader).lines() {
        let line = line.context("cannot read the tests' output")?;
        println!("{line}");
        tally += Tally::of_line(&line);
    }
    let status = child.wait().context("cannot wait for cargo")?;
    if !status.success() && tally.failed == 0 {
        return Err(anyhow!("the test runner gave up: {status}"));
    }
    Ok(tally)
}
