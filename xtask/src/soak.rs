//! `cargo xtask soak`: SIGKILL of `shorefast mount` at random times, many times over. What must hold afterwards is in
//! tests/e2e/crash; this builds and starts it.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::{process, setup};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many mounts are killed
    #[arg(long, default_value_t = 1000)]
    kills: u32,
    /// Repeat a run: the seed that it printed
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    setup::run()?;
    process::show(Command::new("cargo").args(["build", "--quiet", "--package", "shorefast"]))?;
    let mut test = Command::new("cargo");
    test.args(["test", "--quiet", "--package", "shorefast-tests", "--test", "crash", "--", "--ignored", "--nocapture", "soak"])
        .env("SOAK_KILLS", args.kills.to_string())
        .env("MUST_RUN", "1");
    if let Some(seed) = args.seed {
        test.env("SOAK_SEED", seed.to_string());
    }
    process::show(&mut test)?;
    Ok(ExitCode::SUCCESS)
}
