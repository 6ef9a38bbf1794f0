//! `cargo xtask hot`: what a mount executes, written down for the linker, which puts it side by side.
//!
//! A mount uses half a megabyte of a program of eight, all over it. Every 64 KiB of it that are touched cost a page fault, and time
//! again when the process ends. In: the static release, with its symbols. Out: `crates/shorefast/hot.ld`.

mod functions;
mod steps;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use shorefast_tests::client::{Request, store};
use shorefast_tests::{Client, Host, Way};

use crate::{process, setup, static_binary};
use functions::Functions;

const SCRIPT: &str = "crates/shorefast/hot.ld";

/// A FUSE client with a dedicated user, called as its users call it; and a kernel filesystem in a user namespace.
const MOUNTS: [&str; 2] = ["bindfs", "tmpfs"];

pub(crate) fn run() -> Result<ExitCode> {
    setup::run()?;
    let binary = fs::canonicalize(static_binary::build_with_symbols()?).context("cannot find the binary")?;
    let functions = Functions::of(&binary)?;
    let host = Host::new().context("this runs where the tests do")?;
    host.offer_packages();
    let mut hot = BTreeSet::new();
    for name in MOUNTS {
        println!("every step of a mount of {name}: half a minute");
        let target = host.directory(format!("target of {name}"));
        let umount = || process::run(Command::new("umount").arg(&target)).with_context(|| format!("{name} was not mounted"));
        // The first time it also makes the image.
        process::run(&mut mount(&host, &binary, name, &target))?;
        umount()?;
        let executed = steps::of(&mut mount(&host, &binary, name, &target), functions.range())?;
        umount()?;
        hot.extend(functions.named(&executed));
    }
    println!("{} of {} functions", hot.len(), functions.count());
    fs::write(SCRIPT, script(&hot)).with_context(|| format!("cannot write {SCRIPT}"))?;
    Ok(ExitCode::SUCCESS)
}

fn mount(host: &Host, binary: &Path, name: &'static str, target: &Path) -> Command {
    const PATIENCE: &str = "--timeout=600";
    let mut command = Command::new(binary);
    if name == "bindfs" {
        command.arg("--root").arg(store()).args(["mount", PATIENCE, "-t", name]).arg(host.directory("source")).arg(target);
    } else {
        command.args(Request::new(&Client::named(name), name, name, target).arguments(Way::Directory, &[PATIENCE]));
    }
    command
}

/// Added to the linker's own script. First what these functions are called now; then, should another compiler or version have given
/// them other names, whatever is called alike. A name that is nobody's does no harm.
fn script(names: &BTreeSet<String>) -> String {
    let alike: BTreeSet<_> = names.iter().map(|name| functions::pattern(name)).filter(|name| !names.contains(name)).collect();
    let sections: String = names.iter().chain(&alike).map(|name| format!("    *(.text.{name})\n")).collect();
    format!("/* Written by `cargo xtask hot`. */\nSECTIONS\n{{\n  .text.mount :\n  {{\n{sections}  }}\n}}\nINSERT BEFORE .text;\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_names_come_first() {
        let names = ["_ZN1a17h0123456789abcdefE", "memcpy"].map(str::to_owned).into();
        let expected = "    *(.text._ZN1a17h0123456789abcdefE)\n    *(.text.memcpy)\n    *(.text._ZN1a17h*)\n  }";
        assert!(script(&names).contains(expected), "{}", script(&names));
    }
}
