//! `cargo xtask bench`: how fast Shorefast mounts, beside the same client on the host, in runc and in podman. In: a checkout and a
//! Debian machine with Rust, at rest. Out: a report in Markdown on stdout, all raw numbers with `--json`; progress goes to stderr.
//!
//! Each part runs in a process of its own, inside an [`enclosure`]: nothing that it starts or mounts outlives it. What a part
//! returns are numbers and goals; only [`report`] makes text of them.

mod warden;

mod enclosure;

mod csi;
mod data;
mod docker;
mod heal;
mod memory;
mod overhead;
mod packages;
mod pull;
mod reality;
mod records;
mod scale;
mod workers;

mod containers;
mod crowd;
mod rounds;

mod way;

mod calm;
mod filesystem;
mod report;

mod machine;
mod numbers;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use shorefast_tests::Host;

use crate::bench::numbers::Measured;
use crate::{apt, setup, static_binary};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rounds; in each round every way mounts once
    #[arg(long, default_value_t = 100)]
    n: usize,
    /// Only this part; can be given several times
    #[arg(long)]
    only: Vec<Part>,
    /// Measure this binary, and do not build the static release
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Write all raw numbers to this file, too
    #[arg(long)]
    json: Option<PathBuf>,
    /// How the bench calls itself
    #[arg(long, hide = true)]
    role: Option<Role>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    /// Runs a measurer, and cleans up after it
    Warden,
    /// Measures one part, and prints its raw numbers
    Measurer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// tmpfs and bindfs: native, shorefast, runc, podman
    Overhead,
    /// sshfs and glusterfs with real servers: native, shorefast
    Reality,
    /// What lives beside the daemons of 200 mounts
    Memory,
    /// Many mounts on the host, many live mounts, many at once
    Scale,
    /// list, inspect, umount and reconcile beside thousands of mounts
    Records,
    /// A process that lives on asks for mounts: mounts per second, beside native ones
    Workers,
    /// The CSI driver: a volume for a pod, a full node's volumes at once, its memory
    Csi,
    /// Reading and writing through a mount
    Data,
    /// Making an image of packages: shorefast, mmdebstrap
    Packages,
    /// Pulling an image out of a registry: shorefast, podman, skopeo and umoci
    Pull,
    /// docker run with a volume of ours, and with a bind mount
    Docker,
    /// A client is killed: how long its users wait for the next one, beside native mounts
    Heal,
}

const PARTS: [Part; 12] = [
    Part::Overhead,
    Part::Reality,
    Part::Memory,
    Part::Scale,
    Part::Records,
    Part::Workers,
    Part::Csi,
    Part::Data,
    Part::Packages,
    Part::Pull,
    Part::Docker,
    Part::Heal,
];

/// Beside what the tests need.
const PACKAGES: [&str; 4] = ["fio", "podman", "runc", "time"];

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match args.role {
        Some(Role::Warden) => warden::watch(the_one_part(args)?, args.n),
        Some(Role::Measurer) => measure_one(the_one_part(args)?, args.n),
        None => measure_all(args),
    }
}

fn measure_all(args: &Args) -> Result<ExitCode> {
    ensure!(args.n > 0, "nothing can be measured in no rounds");
    setup::run()?;
    apt::ensure_installed(&PACKAGES)?;
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => {
            eprintln!("building the static release");
            let binary = static_binary::build()?;
            eprintln!("waiting for the machine to come to rest");
            machine::wait_for_rest()?;
            binary
        }
    };
    let binary = fs::canonicalize(&binary).with_context(|| format!("cannot find {}", binary.display()))?;
    let machine = machine::describe(&binary)?;
    if machine.is_busy() {
        eprintln!("this machine is busy (load {}): do not trust what follows", machine.load);
    }
    println!("{}", report::heading(&machine));

    let parts = if args.only.is_empty() { &PARTS[..] } else { &args.only };
    let mut measured = Vec::new();
    let mut failed = false;
    for part in parts {
        match enclosure::measure(*part, args.n, &binary) {
            Ok(numbers) => {
                println!("{}", report::section(&numbers));
                measured.push(numbers);
            }
            Err(error) => {
                eprintln!("{part:?}: {error:#}");
                failed = true;
            }
        }
    }
    if let Some(file) = &args.json {
        fs::write(file, report::json(&machine, &measured)?).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn the_one_part(args: &Args) -> Result<Part> {
    match args.only[..] {
        [part] => Ok(part),
        _ => bail!("one part at a time"),
    }
}

fn measure_one(part: Part, n: usize) -> Result<ExitCode> {
    let host = Host::new().context("the bench runs where the tests do")?;
    enclosure::furnish(&host)?;
    let measured = match part {
        Part::Overhead => overhead::measure(&host, n),
        Part::Reality => reality::measure(&host, n),
        Part::Memory => memory::measure(&host),
        Part::Scale => scale::measure(&host, n),
        Part::Records => records::measure(&host, n),
        Part::Workers => workers::measure(&host, n),
        Part::Csi => csi::measure(&host, n),
        Part::Data => data::measure(&host, n),
        Part::Packages => packages::measure(&host, n),
        Part::Pull => pull::measure(&host, n),
        Part::Docker => docker::measure(&host, n),
        Part::Heal => heal::measure(&host, n),
    };
    println!("{}", serde_json::to_string::<Measured>(&measured?)?);
    Ok(ExitCode::SUCCESS)
}
