//! `cargo xtask docker-plugin`: the directory of which `docker plugin create` makes a managed plugin: the static binary, and what it is given.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::static_binary;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A directory that does not exist yet
    #[arg(long, default_value = "target/docker-plugin")]
    out: PathBuf,
    /// Use this binary instead of building the static release
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

const CONFIGURATION: &str = "deploy/docker-plugin/config.json";

/// Where Docker mounts something, or the plugin keeps something: no other program reads its root.
const DIRECTORIES: [&str; 7] = ["dev", "etc/shorefast", "proc", "run/docker/plugins", "sys", "tmp", "var/lib/shorefast/docker"];

pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(!args.out.exists(), "{} is there already", args.out.display());
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => static_binary::build()?,
    };
    make(&binary, &args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    println!("docker plugin create shorefast {}", args.out.display());
    Ok(())
}

pub(crate) fn make(binary: &Path, out: &Path) -> Result<()> {
    // Wherever it is called: the tests do.
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = out.join("rootfs");
    DIRECTORIES.iter().try_for_each(|directory| fs::create_dir_all(root.join(directory)))?;
    // Docker puts the host's files there.
    ["etc/hosts", "etc/resolv.conf"].iter().try_for_each(|file| fs::write(root.join(file), ""))?;
    fs::copy(binary, root.join("shorefast")).with_context(|| format!("cannot copy {}", binary.display()))?;
    fs::copy(checkout.join(CONFIGURATION), out.join("config.json")).with_context(|| format!("cannot copy {CONFIGURATION}"))?;
    Ok(())
}
