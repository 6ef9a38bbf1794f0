//! `cargo xtask e2e-docker`: every test of volumes with the real Docker and Podman, with the static binary; also those that `cargo xtask test`
//! has no time for.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::{process, setup, static_binary};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only tests whose name contains this
    #[arg(default_value = "volume")]
    filter: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    setup::run()?;
    let binary = std::path::absolute(static_binary::build_quickly()?).context("no working directory")?;
    // The tests call xtask, which they would find stale.
    process::show(process::cargo().args(["build", "--quiet", "--workspace", "--all-targets"]))?;
    let tests = ["nextest", "run", "--package=shorefast-tests", "--test=containers", "--run-ignored=all", "--no-fail-fast"];
    let status = process::cargo()
        .args(tests)
        // One after the other: some of them load the machine by themselves.
        .args(["--test-threads=1", "--config-file", "tests/nextest.toml", "--retries=0", &args.filter])
        .env("SHOREFAST_BIN", binary)
        .status()
        .context("cannot start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
