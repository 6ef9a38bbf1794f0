//! The release binary for hosts that have nothing: linked statically, and run where there is nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process;

/// Linked statically, and for a fixed address: otherwise every start writes 27,000 relocations into a hundred pages, which costs a
/// mount half a millisecond.
pub(crate) const FLAGS: &str = "-C target-feature=+crt-static -C relocation-model=static";

/// What `cargo xtask hot` has found, for the linker. A release without it is as good, and some per cent slower.
pub(crate) const LINK_SCRIPT: &str = "target/static/hot.ld";

/// The same command as in the README.
pub(crate) fn build() -> Result<PathBuf> {
    build_as("release", None)
}

/// The same, to the last byte, with the linker's list of what is where. A build with symbols would not do: in it, functions have
/// other names.
pub(crate) fn build_with_map(map: &Path) -> Result<PathBuf> {
    build_as("release", Some(map))
}

/// The same linking without the optimisation, which takes minutes.
pub(crate) fn build_quickly() -> Result<PathBuf> {
    build_as("quick", None)
}

fn build_as(profile: &str, map: Option<&Path>) -> Result<PathBuf> {
    let target = target();
    let profile_argument = format!("--profile={profile}");
    let arguments = ["build", "--quiet", &profile_argument, "--package=shorefast", "--target-dir=target/static", "--target", &target];
    let script = std::path::absolute(LINK_SCRIPT).context("no working directory")?;
    let mut cargo = process::cargo();
    cargo.args(arguments).env("RUSTFLAGS", FLAGS).envs(map.map(|map| ("SHOREFAST_LINK_MAP", map)));
    if profile == "release" && script.exists() {
        cargo.env("SHOREFAST_LINK_SCRIPT", script);
    }
    process::run(&mut cargo)?;
    Ok(PathBuf::from("target/static").join(target).join(profile).join("shorefast"))
}

/// For musl. A static program of glibc asks the processor sixty times what it is before it begins, which takes a third of a millisecond
/// in a virtual machine; but it works as well, where rustup cannot get the other.
fn target() -> String {
    let musl = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    match process::output(Command::new("timeout").args(["120", "rustup", "--quiet", "target", "add", &musl])) {
        Ok(_) => musl,
        Err(error) => {
            eprintln!("the static binary is linked with glibc, which starts slower: {error:#}");
            format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
        }
    }
}

/// In a directory tree that holds the binary and nothing else it must start, read its arguments, and say what is missing.
pub(crate) fn check() -> Result<()> {
    let binary = build_quickly()?;
    let root = tempfile::tempdir().context("cannot make a directory")?;
    fs::copy(&binary, root.path().join("shorefast")).context("cannot copy the binary")?;
    let inside = |arguments: &[&str]| {
        let output = Command::new("chroot").arg(root.path()).arg("/shorefast").args(arguments).output();
        output.context("cannot start chroot")
    };
    let version = inside(&["--version"])?;
    ensure!(version.status.success() && version.stdout.starts_with(b"shorefast "), "no version: {version:?}");
    let list = inside(&["list", "--json"])?;
    ensure!(list.status.success() && list.stdout == b"[]\n", "no empty list: {list:?}");
    let mount = inside(&["mount", "-t", "nosuch", "host:", "/"])?;
    let said = String::from_utf8_lossy(&mount.stderr);
    ensure!(mount.status.code() == Some(2) && said.contains("mode host needs mount(8)"), "no clear error: {mount:?}");
    Ok(())
}
