//! A program of the cluster. Dropped: ended, with all that is in its group.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use shorefast_tests::wait;

/// Long enough to end well; then it is made to.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) struct Server {
    child: Child,
    log: PathBuf,
    groups: Vec<PathBuf>,
}

impl Server {
    pub(crate) fn start(name: &str, home: &Path, command: Command) -> Result<Self> {
        Self::start_with(name, home, command, Vec::new())
    }

    /// In a group of its own in every hierarchy, as a service manager starts a service.
    pub(crate) fn start_in_group(name: &str, home: &Path, command: Command) -> Result<Self> {
        let mut groups = Vec::new();
        for hierarchy in hierarchies()? {
            let group = hierarchy.join(format!("shorefast-test-{name}-{}", std::process::id()));
            fs::create_dir(&group).with_context(|| format!("cannot make {}", group.display()))?;
            // A cpuset of version 1 admits no process before its CPUs and memory nodes are set.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if let Ok(above) = fs::read(hierarchy.join(file)) {
                    fs::write(group.join(file), above)?;
                }
            }
            groups.push(group);
        }
        Self::start_with(name, home, command, groups)
    }

    fn start_with(name: &str, home: &Path, command: Command, groups: Vec<PathBuf>) -> Result<Self> {
        let log = home.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log).context("cannot create a log")?;
        let enter = groups.iter().map(|group| format!("echo $$ > {}/cgroup.procs && ", group.display())).collect::<String>();
        // Whatever kills us takes it along.
        let mut whole = Command::new("sh");
        whole.args(["-c", &format!("{enter}exec setpriv --pdeathsig KILL -- \"$@\""), "sh"]);
        whole.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => whole.env(name, value),
                None => whole.env_remove(name),
            };
        }
        whole.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = whole.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { child, log, groups })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The last of what it logged.
    pub(crate) fn said(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().rev().take(10).collect::<Vec<_>>().join("\n")
    }

    /// Is this process in one of the server's own groups?
    pub(crate) fn shares_group_with(&self, pid: u32) -> bool {
        let members = |group: &PathBuf| fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        self.groups.iter().any(|group| members(group).lines().any(|member| member == pid.to_string()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        if wait::within(GRACE, || self.child.try_wait().ok().flatten()).is_none() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
        for group in &self.groups {
            let empty = || {
                let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
                let pids = members.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
                for pid in pids {
                    let _ = kill_process(pid, Signal::KILL);
                }
                fs::remove_dir(group).ok()
            };
            wait::within(GRACE, empty);
        }
    }
}

fn hierarchies() -> Result<Vec<PathBuf>> {
    let mounts = shorefast_tests::mountinfo::here().into_iter();
    Ok(mounts.filter(|mount| mount.fstype == "cgroup" || mount.fstype == "cgroup2").map(|mount| mount.point).collect())
}
