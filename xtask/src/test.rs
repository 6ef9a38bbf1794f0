//! `cargo xtask test`: everything that must hold, in one command. Prepares the machine, checks the code, runs the tests here and
//! under each guest kernel, and closes with `N passed, N failed`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, anyhow};

use crate::kernels::KERNELS;
use crate::matrix::{self, Extent, Selection};
use crate::tally::Tally;
use crate::{clock, generate, kernels, process, scenarios, setup, static_binary};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this machine's kernel, and no checks of formatting and lints
    #[arg(long)]
    quick: bool,
    /// Also what takes minutes more on each guest kernel (see `cargo xtask e2e-kernels`)
    #[arg(long)]
    thorough: bool,
    /// Only tests whose name contains this
    filter: Option<String>,
}

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
        eprintln!("[{}] the static binary in an empty directory tree", clock::since_start());
        step("static binary", static_binary::check().map(|()| Tally::default()));
    }
    // The end-to-end tests run the binary, and cargo does not know: without this they would run a stale one.
    // All targets, as the test runner will: otherwise cargo gives the dependencies other features, and compiles them once more.
    build_killable()?;
    check(&["build", "--quiet", "--workspace", "--all-targets"])?;
    shorefast_tests::hostile::client();
    // Some of the tests start guests by themselves.
    kernels::run()?;
    step("tests", run_here(args));
    if !args.quick {
        for column in run_in_guests(args)? {
            step(column.version, column.failure.map_or(Ok(column.tally), Err));
        }
    }

    for failure in &failures {
        eprintln!("failed: {failure}");
    }
    eprintln!("[{}] done", clock::since_start());
    println!("{tally}");
    let good = failures.is_empty() && tally.failed == 0 && tally.passed > 0;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The binary that can be killed at any named point, beside the normal one. Built in the same place and for the whole workspace, so that
/// nothing but the engine and what stands on it is compiled twice.
pub(crate) fn build_killable() -> Result<()> {
    check(&["build", "--quiet", "--workspace", "--bins", "--features=shorefast/kill-points"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let place = target.join("kill-points/debug");
    fs::create_dir_all(&place).context("cannot make a directory")?;
    fs::copy(target.join("debug/shorefast"), place.join("shorefast")).context("cannot copy the binary")?;
    Ok(())
}

fn check(arguments: &[&str]) -> Result<Tally> {
    eprintln!("[{}] cargo {}", clock::since_start(), arguments.join(" "));
    process::show(process::cargo().args(arguments)).map(|()| Tally::default())
}

fn run_here(args: &Args) -> Result<Tally> {
    let mut command = process::cargo();
    command
        .args(["nextest", "run", "--workspace", "--no-fail-fast", "--no-tests=pass", "--config-file", "tests/nextest.toml"])
        .args(&args.filter);
    count(command)
}

fn run_in_guests(args: &Args) -> Result<Vec<matrix::Column>> {
    let extent = if args.thorough { Extent::Thorough } else { Extent::Quick };
    let selection = Selection { extent, filter: args.filter.as_deref() };
    let columns = matrix::run_on(&KERNELS.map(|kernel| kernel.version), &extent.programs()?, selection)?;
    print!("{}", scenarios::table(&columns.iter().map(|column| (column.version, &column.scenarios)).collect::<Vec<_>>()));
    Ok(columns)
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
        tally += Tally::of_runner(&line);
    }
    let status = child.wait().context("cannot wait for cargo")?;
    if !status.success() && tally.failed == 0 {
        return Err(anyhow!("the test runner gave up: {status}"));
    }
    Ok(tally)
}
