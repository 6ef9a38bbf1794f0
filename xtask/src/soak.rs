//! `cargo xtask soak`: what takes many times to be believed. SIGKILL of `shorefast mount` at random times (`--kills`), of clients under load
//! (`--crashes`), and of the process that starts a new client, at each of its steps (`--healer-kills`); and upgrades of clients under load
//! (`--upgrades`). What must hold afterwards is in tests/e2e/crash, tests/e2e/heal and tests/e2e/upgrade.rs; this builds and starts it.

use std::process::ExitCode;

use anyhow::Result;

use crate::{process, setup, test};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many mounts are killed while they are made: 1000, unless something else is asked for
    #[arg(long)]
    kills: Option<u32>,
    /// How many clients are killed, in turns, while many kinds of operations go on, on the host and in a container
    #[arg(long)]
    crashes: Option<u32>,
    /// Only this client's
    #[arg(long, requires = "crashes")]
    client: Option<String>,
    /// How many times the process that starts a new client is killed, at each of its steps in turn
    #[arg(long)]
    healer_kills: Option<u32>,
    /// How many times a client is upgraded while many kinds of operations go on, with files open on it, on the host and in a container
    #[arg(long)]
    upgrades: Option<u32>,
    /// Repeat a run of --kills: the seed that it printed
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    setup::run()?;
    if args.healer_kills.is_some() {
        test::build_killable()?;
    }
    process::show(process::cargo().args(["build", "--quiet", "--package", "shorefast"]))?;
    let is_alone = args.crashes.is_none() && args.healer_kills.is_none() && args.upgrades.is_none();
    if let Some(kills) = args.kills.or(is_alone.then_some(1000)) {
        let seed = args.seed.map(|seed| ("SOAK_SEED", seed.to_string()));
        soak("crash", "soak", [Some(("SOAK_KILLS", kills.to_string())), seed])?;
    }
    if let Some(kills) = args.healer_kills {
        soak("heal", "soak_healer_kills", [Some(("SOAK_HEALER_KILLS", kills.to_string())), None])?;
    }
    if let Some(crashes) = args.crashes {
        let client = args.client.clone().map(|client| ("SOAK_CLIENT", client));
        soak("heal", "soak_crashes", [Some(("SOAK_CRASHES", crashes.to_string())), client])?;
    }
    if let Some(upgrades) = args.upgrades {
        // The same tests as without a soak, with more upgrades.
        let variables = [Some(("SHOREFAST_UPGRADES", upgrades.to_string())), None];
        for name in ["nobody_notices_who_works_by_path_or_has_something_open", "an_sshfs_is_upgraded_under_load"] {
            run_test("upgrade", &["--nocapture", name], variables.clone())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn soak(program: &str, name: &str, variables: [Option<(&str, String)>; 2]) -> Result<()> {
    run_test(program, &["--ignored", "--nocapture", name], variables)
}

fn run_test(program: &str, words: &[&str], variables: [Option<(&str, String)>; 2]) -> Result<()> {
    let mut test = process::cargo();
    test.args(["test", "--quiet", "--package", "shorefast-tests", "--test", program, "--"])
        .args(words)
        .env("MUST_RUN", "1")
        .envs(variables.into_iter().flatten());
    process::show(&mut test)
}
