//! `cargo xtask filtered COMMAND`: the command, under a seccomp filter that allows everything. Whatever it does differently then is
//! the price of having a filter at all.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    seccompiler::apply_filter(&allow_all()?).context("cannot install the filter")?;
    let (program, words) = args.words.split_first().expect("clap demands one");
    Err(Command::new(program).args(words).exec()).with_context(|| format!("cannot run {}", program.display()))
}

/// It has no rules, so only its answer for everything else counts; the other one, for what a rule matches, has to be different.
fn allow_all() -> Result<BpfProgram> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(Default::default(), SeccompAction::Allow, SeccompAction::KillProcess, architecture)?;
    Ok(filter.try_into()?)
}
