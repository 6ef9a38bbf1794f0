//! `cargo xtask hot`: what a mount executes, written down for the linker, which puts it side by side, in the order of first use.
//!
//! A mount uses half a megabyte of a program of eight, all over it. Every 64 KiB of it that are touched cost a page fault, and time
//! again when the process ends. In: the static release, and what its linker says of it. Out: a linker script for the next static
//! release (`static_binary::LINK_SCRIPT`). It names functions as this compiler calls them, so it is made anew for each release and is not in git.

mod functions;
mod steps;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use shorefast_tests::client::{Request, store};
use shorefast_tests::{Client, Host, Root, Way};

use crate::{process, setup, static_binary};
use functions::Functions;

const SCRIPT: &str = static_binary::LINK_SCRIPT;

/// A FUSE client that keeps owners, called as its users call it; and a kernel filesystem. Both are in a user namespace.
const MOUNTS: [&str; 2] = ["bindfs", "tmpfs"];

pub(crate) fn run() -> Result<ExitCode> {
    setup::run()?;
    let map = std::path::absolute("target/static/shorefast.map").context("cannot find this directory")?;
    let binary = fs::canonicalize(static_binary::build_with_map(&map)?).context("cannot find the binary")?;
    let functions = Functions::of(&fs::read_to_string(&map).with_context(|| format!("cannot read {}", map.display()))?)?;
    let host = Host::with_binary(binary.clone(), Root::Private).context("this runs where the tests do")?;
    host.offer_packages();
    let mut hot = InOrder::default();
    for name in MOUNTS {
        println!("every step of a mount of {name}: half a minute");
        let target = host.directory(format!("target of {name}"));
        let umount = || process::run(Command::new("umount").arg(&target)).with_context(|| format!("{name} was not mounted"));
        // The first time it also makes the image.
        process::run(&mut mount(&host, &binary, name, &target))?;
        umount()?;
        let executed = steps::of(&mut mount(&host, &binary, name, &target), functions.range())?;
        umount()?;
        executed.iter().flat_map(|place| functions.at(*place)).for_each(|name| hot.add(name.to_owned()));
    }
    println!("{} of {} functions", hot.names.len(), functions.count());
    fs::write(SCRIPT, script(&hot)).with_context(|| format!("cannot write {SCRIPT}"))?;
    Ok(ExitCode::SUCCESS)
}

fn mount(host: &Host, binary: &Path, name: &'static str, target: &Path) -> Command {
    const PATIENCE: &str = "--timeout=600s";
    let mut command = Command::new(binary);
    if name == "bindfs" {
        command.arg("--root").arg(store()).args(["mount", PATIENCE, "-t", name]).arg(host.directory("source")).arg(target);
    } else {
        command.args(Request::new(&Client::named(name), name, name, target).arguments(Way::Directory, &[PATIENCE]));
    }
    command
}

/// Added to the linker's own script. First what these functions are called now; then, should another compiler or version have given
/// them other names, whatever is called alike. A name that no function has does no harm.
fn script(hot: &InOrder) -> String {
    let mut all = hot.clone();
    hot.names.iter().for_each(|name| all.add(functions::pattern(name)));
    let sections: String = all.names.iter().map(|wish| format!("    {wish}\n")).collect();
    format!("/* Written by `cargo xtask hot`. */\nSECTIONS\n{{\n  .text.mount :\n  {{\n{sections}  }}\n}}\nINSERT BEFORE .text;\n")
}

/// Names as they came, each once.
#[derive(Clone, Default)]
struct InOrder {
    names: Vec<String>,
    known: BTreeSet<String>,
}

impl InOrder {
    fn add(&mut self, name: String) {
        if self.known.insert(name.clone()) {
            self.names.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_names_come_first_and_in_order() {
        let mut hot = InOrder::default();
        ["*memcpy.lo(.text)", "*(.text._ZN1a17h0123456789abcdefE)", "*memcpy.lo(.text)"]
            .into_iter()
            .for_each(|wish| hot.add(wish.to_owned()));
        let expected = "    *memcpy.lo(.text)\n    *(.text._ZN1a17h0123456789abcdefE)\n    *(.text._ZN1a17h*)\n  }";
        assert!(script(&hot).contains(expected), "{}", script(&hot));
    }
}
