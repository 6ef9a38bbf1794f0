//! `cargo xtask e2e-ceph`: CephFS against a real cluster of Debian's Ceph, by ceph-fuse on this machine and on each guest kernel, and
//! by the kernel's own client on each guest kernel. One table: a row per scenario, a column per kernel.
//!
//! It stands apart from `cargo xtask test` because of what it installs (222 MB) and how long clusters take to start: minutes in a guest.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, anyhow};

use crate::archive::{self, Archive};
use crate::kernels::{self, KERNELS};
use crate::matrix::{self, Column};
use crate::parallel::in_parallel;
use crate::{apt, cache, process, scenarios, setup};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these kernels, such as 6.12, or `here` for this machine's; can be given several times
    #[arg(short, long)]
    kernel: Vec<String>,
    /// Only tests whose name contains this
    filter: Option<String>,
}

/// The cluster, and the native clients, which are the oracle.
const PACKAGES: [&str; 6] = ["ceph-common", "ceph-fuse", "ceph-mds", "ceph-mon", "ceph-osd", "kmod"];

const ARCHIVE: Archive = Archive {
    name: "debian-ceph",
    suite: archive::SUITE,
    packages: &["ceph-common", "ceph-fuse", "coreutils", "dash", "grep", "mawk", "mount", "sed"],
    also: None,
};

/// Those that the catalogue names.
const IMAGES: [&str; 2] = ["packages:debian/bookworm?ceph-fuse,dash", "packages:debian/bookworm?ceph-common"];

/// The table's name of this machine's kernel, which may be without CephFS.
const HERE: &str = "here";
const NOT_HERE: [&str; 2] = ["--skip", "kernel::"];

const SECONDS_HERE: u32 = 600;
/// A guest starts a cluster in more than a minute, on one slow processor that it shares.
const SECONDS_IN_A_GUEST: u32 = 2400;
const GUEST_MEMORY: &str = "2048M";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    setup::run()?;
    kernels::run()?;
    prepare()?;
    process::show(process::cargo().args(["build", "--quiet", "--workspace", "--all-targets"]))?;
    let program = matrix::built(|name| name == "ceph")?.concat();
    matrix::pull(cache::directory()?.join(ARCHIVE.name), &IMAGES)?;

    let wanted = |version: &&'static str| matrix::is_wanted(&args.kernel, version);
    let command = command(&program, args.filter.as_deref());
    let mut columns: Vec<_> = [HERE].into_iter().filter(wanted).map(|_| on_this_machine(&command)).collect();
    let versions: Vec<_> = KERNELS.iter().map(|kernel| kernel.version).filter(wanted).collect();
    columns.extend(in_parallel(&versions, |version| matrix::column_of(version, GUEST_MEMORY, SECONDS_IN_A_GUEST, &command)));
    Ok(matrix::report(columns))
}

fn prepare() -> Result<()> {
    let cache = cache::directory()?;
    let _lock = cache::lock(&cache)?;
    apt::ensure_installed(&PACKAGES)?;
    ARCHIVE.build(&cache)
}

/// With a process table of their own: whatever they start ends with them.
fn on_this_machine(command: &[String]) -> Column {
    let mut column = Column::new(HERE);
    column.failure = follow(command, &mut column).err();
    column
}

fn follow(words: &[String], column: &mut Column) -> Result<()> {
    let mut child = Command::new("timeout")
        .args(["--foreground", "--kill-after=5", &SECONDS_HERE.to_string()])
        .args(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--"])
        .args(words)
        .args(NOT_HERE)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the tests")?;
    let output = child.stdout.take().context("the tests have no output")?;
    for line in BufReader::new(output).lines() {
        column.read(&(line.context("cannot read the tests' output")? + "\n"));
    }
    match child.wait().context("cannot wait for the tests")?.code() {
        Some(124 | 137) => Err(anyhow!("the tests did not end within {SECONDS_HERE} s")),
        _ => Ok(()),
    }
}

/// What cannot run is a failure. The shell takes care of processes whose parents have ended.
fn command(program: &str, filter: Option<&str>) -> Vec<String> {
    let script = format!(
        r#"export MUST_RUN=1; echo "{}ceph"; "$@" --ignored --test-threads=1 --color=never; status=$?; exit $status"#,
        scenarios::PROGRAM
    );
    ["sh", "-c", &script, "sh", program].into_iter().chain(filter).map(str::to_owned).collect()
}
