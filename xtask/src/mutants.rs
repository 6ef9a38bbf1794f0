//! `cargo xtask mutants`: plants security regressions, one at a time, and shows which test catches each. In: `xtask/mutants.toml`, one
//! table of small replacements in the source. Out: a line per mutant with the tests that failed; one that no test catches is a failure.
//!
//! The checkout is never touched: mutants are built in a copy below `target/mutants`. End-to-end tests are those of the checkout,
//! run with the mutant's binary; unit tests are run in the copy.

mod copy;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::{process, setup};
use copy::Copy;
use table::{Caught, Mutant};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only mutants whose name contains this
    filter: Option<String>,
    /// Show the table, plant nothing
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let all = table::read()?;
    let chosen: Vec<_> = all.iter().filter(|mutant| args.filter.as_ref().is_none_or(|part| mutant.name.contains(part.as_str()))).collect();
    ensure!(!chosen.is_empty(), "no mutant has {:?} in its name", args.filter.as_deref().unwrap_or_default());
    if args.list {
        chosen.iter().for_each(|mutant| println!("{:<44} {}", mutant.name, mutant.what));
        return Ok(ExitCode::SUCCESS);
    }
    setup::run()?;
    let runner = Runner::prepare()?;
    runner.check_unchanged(&chosen)?;
    let mut survivors = Vec::new();
    for mutant in &chosen {
        let started = Instant::now();
        let failed = runner.failures(mutant).with_context(|| format!("mutant {}", mutant.name))?;
        let by = failed.first().map_or_else(|| "NOT CAUGHT".to_owned(), |first| caught_by(first, failed.len()));
        println!("{:<44} {:>4} s  {by}", mutant.name, started.elapsed().as_secs());
        if failed.is_empty() {
            survivors.push(mutant.name.as_str());
        }
    }
    println!("{} planted, {} caught", chosen.len(), chosen.len() - survivors.len());
    if survivors.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("not caught: {}", survivors.join(", "));
    Ok(ExitCode::FAILURE)
}

fn caught_by(first: &str, count: usize) -> String {
    if count == 1 { first.to_owned() } else { format!("{first} and {} more", count - 1) }
}

/// What every mutant needs: the tests, and a copy of the source to change.
struct Runner {
    copy: Copy,
    build: PathBuf,
}

impl Runner {
    fn prepare() -> Result<Self> {
        process::show(process::cargo().args(["build", "--quiet", "--workspace", "--all-targets"]))?;
        shorefast_tests::hostile::client();
        let place = std::env::current_dir().context("no working directory")?.join("target/mutants");
        Ok(Self { copy: Copy::of_checkout(&place.join("source"))?, build: place.join("build") })
    }

    /// A test that fails without any mutant catches nothing.
    fn check_unchanged(&self, mutants: &[&Mutant]) -> Result<()> {
        let mut asked: Vec<_> = mutants.iter().map(|mutant| &mutant.caught).collect();
        asked.sort_unstable();
        asked.dedup();
        for caught in asked {
            let failed = self.run_tests(caught)?;
            ensure!(failed.is_empty(), "without any mutant, these tests fail: {}", failed.join(", "));
        }
        Ok(())
    }

    fn failures(&self, mutant: &Mutant) -> Result<Vec<String>> {
        let _planted = self.copy.plant(mutant)?;
        self.run_tests(&mutant.caught)
    }

    fn build_binary(&self) -> Result<PathBuf> {
        process::run(self.cargo().args(["build", "--quiet", "--package", "shorefast"]))?;
        Ok(self.build.join("debug/shorefast"))
    }

    /// Which tests fail, up to the first and those that ran beside it.
    fn run_tests(&self, caught: &Caught) -> Result<Vec<String>> {
        let mut command = match caught {
            Caught::EndToEnd(filter) => {
                let mut cargo = process::cargo();
                // Not that package alone: cargo would compile all dependencies again, with other features.
                cargo.args(["nextest", "run", "--workspace", "--filterset"]).arg(format!("package(shorefast-tests) & ({filter})"));
                cargo.env("SHOREFAST_BIN", self.build_binary()?);
                cargo
            }
            Caught::Unit(package) => {
                let mut cargo = self.cargo();
                cargo.args(["nextest", "run", "--package", package]);
                cargo
            }
        };
        command.args(["--config-file", "tests/nextest.toml", "--retries=0", "--status-level=fail", "--color=never"]);
        let output = command.env("MUST_RUN", "1").stdin(Stdio::null()).output().context("cannot start cargo nextest")?;
        let said = String::from_utf8_lossy(&output.stderr);
        let failed = failed_tests(&said);
        if !output.status.success() && failed.is_empty() {
            bail!("the tests did not run:\n{said}");
        }
        Ok(failed)
    }

    fn cargo(&self) -> Command {
        let mut cargo = process::cargo();
        cargo.current_dir(self.copy.path()).env("CARGO_TARGET_DIR", &self.build);
        // Compiled a hundred times, debugged never.
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "1");
        cargo
    }
}

/// Names of tests that nextest reports as failed, once each. It shows a failure when it happens and again at the end.
fn failed_tests(said: &str) -> Vec<String> {
    let name = |line: &str| {
        let line = line.trim_start();
        let failed = ["FAIL [", "TIMEOUT [", "SIGABRT [", "SIGKILL [", "SIGSEGV ["].iter().any(|word| line.starts_with(word));
        let (_, rest) = failed.then(|| line.split_once(']'))??;
        // `( 1/20) package::binary test`, without the count in older versions.
        let rest = rest.trim_start();
        let rest = if rest.starts_with('(') { rest.split_once(')')?.1.trim_start() } else { rest };
        rest.split_whitespace().last().map(str::to_owned)
    };
    let mut names: Vec<String> = said.lines().filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

/// Where the table is, seen from the checkout.
fn table_path() -> &'static Path {
    Path::new("xtask/mutants.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_which_tests_failed() {
        let said = "        FAIL [   0.204s] (1/4) shorefast-tests::hostile in_a_user_namespace::the_batch\n\
                    ──── STDOUT: shorefast-tests::hostile in_a_user_namespace::the_batch\n\
                    \x20    TIMEOUT [ 300.1s] shorefast-tests::dead hangs\n\
                    \x20       FAIL [   0.204s] (1/4) shorefast-tests::hostile in_a_user_namespace::the_batch\n\
                    \x20       PASS [   0.1s] (2/4) shorefast-tests::life lives\n";
        assert_eq!(failed_tests(said), ["hangs", "in_a_user_namespace::the_batch"]);
    }
}
