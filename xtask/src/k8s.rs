//! `cargo xtask e2e-k8s`: a real Kubernetes node, whose kubelet mounts through Shorefast from a real GlusterFS. Everything is built
//! once, runs on a host of its own, and is gone afterwards; what was found is one table.

mod cluster;
mod images;
mod kubectl;
mod node;
mod pod;
mod programs;
mod scenarios;
mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::{cache, setup, static_binary, warden};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only build what the cluster is made of
    #[arg(long)]
    build_only: bool,
    /// Use this static binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Only scenarios whose name contains this, and those that they build on
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    #[arg(long, hide = true)]
    role: Option<Role>,
}

/// Wardens and nodes are processes of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    /// Runs a node, and ends what it leaves
    Warden,
    Node,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let programs = || programs::build_once(&cache::directory()?.join("k8s"));
    match args.role {
        None => prepare(args),
        Some(Role::Warden) => warden::watch_as_init(ourselves(Role::Node, args)?),
        Some(Role::Node) => scenarios::run(programs()?, args.only.as_deref()),
    }
}

fn prepare(args: &Args) -> Result<ExitCode> {
    let programs = programs::build_once(&cache::directory()?.join("k8s"))?;
    if args.build_only {
        println!("{}", programs.root.display());
        return Ok(ExitCode::SUCCESS);
    }
    setup::run()?;
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => static_binary::build_quickly()?,
    };
    let binary = fs::canonicalize(&binary).with_context(|| format!("cannot find {}", binary.display()))?;
    let status = ourselves(Role::Warden, args)?.env("SHOREFAST_BIN", &binary).status().context("cannot start ourselves")?;
    remove_groups(Path::new("/sys/fs/cgroup"));
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Ctrl-C ends the node, not its warden, which has to clean up then. The warden is the node's first process: pods that go to the host go
/// to the namespaces of that.
fn ourselves(role: Role, args: &Args) -> Result<Command> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let (words, name): (&[&str], _) = match role {
        Role::Warden => {
            (&["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "env", "--ignore-signal=INT,TERM,HUP"], "warden")
        }
        Role::Node => (&["env", "--default-signal=INT,TERM,HUP"], "node"),
    };
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(program).args(["e2e-k8s", "--role", name]);
    if let Some(only) = &args.only {
        command.args(["--only", only]);
    }
    Ok(command)
}

/// Control groups are the machine's: those that kubelet made are still there, empty. One that is in use cannot be removed.
fn remove_groups(hierarchies: &Path) {
    let directories = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let mut open: Vec<_> = directories(hierarchies).iter().map(|hierarchy| hierarchy.join("kubepods")).collect();
    open.push(hierarchies.join("kubepods"));
    let mut found = Vec::new();
    while let Some(group) = open.pop() {
        open.extend(directories(&group));
        found.push(group);
    }
    found.iter().rev().for_each(|group| drop(fs::remove_dir(group)));
}
