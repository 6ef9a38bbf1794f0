//! In: an architecture. Out: the static binary for it, with no path of this machine in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::dist::Architecture;
use crate::{process, static_binary};

pub(super) fn build(architecture: Architecture, quick: bool, directory: &Path) -> Result<PathBuf> {
    let target = format!("{}-unknown-linux-musl", architecture.rust);
    process::run(Command::new("timeout").args(["120", "rustup", "--quiet", "target", "add", &target]))?;
    let profile = if quick { "quick" } else { "release" };
    let here = std::env::current_dir().context("no working directory")?;
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let cargo_home = cargo_home.context("no home directory")?;
    let remap = |from: &Path, to: &str| format!(" --remap-path-prefix={}={to}", from.display());
    let flags = format!("{}{}{}", static_binary::FLAGS, remap(&here, "/shorefast"), remap(&cargo_home, "/cargo"));
    let variable = target.replace('-', "_");
    let mut cargo = process::cargo();
    cargo.args(["build", "--quiet", "--locked", "--package=shorefast", "--target", &target]);
    cargo.arg(format!("--profile={profile}")).arg("--target-dir").arg(directory);
    cargo.env("RUSTFLAGS", flags).env(format!("CC_{variable}"), architecture.compiler);
    if architecture.rust != std::env::consts::ARCH {
        cargo.env(format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase()), architecture.compiler);
        // Its headers are glibc's: what they would call for checks is not in musl.
        cargo.env(format!("CFLAGS_{variable}"), "-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=0");
    }
    process::run(&mut cargo)?;
    let built = directory.join(target).join(profile).join("shorefast");
    check(&built, architecture)?;
    Ok(built)
}

/// For that machine, and nothing of it is looked for when it starts.
fn check(binary: &Path, architecture: Architecture) -> Result<()> {
    let headers = process::output(Command::new("readelf").args(["--wide", "--file-header", "--program-headers"]).arg(binary))?;
    let machine = headers.lines().find_map(|line| line.trim().strip_prefix("Machine:")).unwrap_or_default().trim();
    ensure!(machine.ends_with(architecture.machine), "{} is for {machine}", binary.display());
    let dynamic = headers.lines().map(str::trim).find(|line| line.starts_with("INTERP") || line.starts_with("DYNAMIC"));
    ensure!(dynamic.is_none(), "{} is not linked statically: {}", binary.display(), dynamic.unwrap_or_default());
    Ok(())
}
