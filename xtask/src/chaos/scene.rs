//! Where a round takes place: a host of its own, with clients of every kind on it, good and bad.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use shorefast_tests::{Client, Host, client, hostile};

use crate::chaos::call::{self, Answer};

/// What is mounted, and what has to come of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// bindfs: a FUSE client. When it dies, another one takes over.
    Bind,
    /// The same, but the mount goes with its client.
    BindDetached,
    /// The same, but the mount stays without one.
    BindKept,
    /// The same with control groups.
    BindLimited,
    /// The same among the host's processes.
    BindOutside,
    /// tmpfs: a filesystem of the kernel.
    Memory,
    /// Takes its time.
    Slow,
    /// Exits without a mount.
    Failing,
    /// Mounts and then fails.
    Quitting,
    /// Never mounts.
    Idle,
    /// Mounts, and stops to answer at one of the first requests.
    Stalling(u8),
}

pub(crate) const GOOD: &[Kind] =
    &[Kind::Bind, Kind::BindDetached, Kind::BindKept, Kind::BindLimited, Kind::BindOutside, Kind::Memory, Kind::Memory, Kind::Slow];
pub(crate) const BAD: &[Kind] =
    &[Kind::Failing, Kind::Quitting, Kind::Idle, Kind::Stalling(0), Kind::Stalling(1), Kind::Stalling(4), Kind::Stalling(9)];

impl Kind {
    pub(crate) fn fstype(self) -> &'static str {
        match self {
            Self::Bind => "chaosbind",
            Self::BindDetached => "chaosdetached",
            Self::BindKept => "chaoskept",
            Self::BindLimited => "chaoslimited",
            Self::BindOutside => "chaosoutside",
            Self::Memory => "chaosmemory",
            Self::Slow => "chaosslow",
            Self::Failing => "chaosfailing",
            Self::Quitting => "chaosquitting",
            Self::Idle => "chaosidle",
            Self::Stalling(_) => "chaosstalling",
        }
    }

    fn source(self) -> String {
        match self {
            kind if kind.shows_source() => SOURCE.to_owned(),
            Self::Stalling(requests) => format!("{requests}-{}", if requests % 2 == 0 { "process" } else { "thread" }),
            _ => "none".to_owned(),
        }
    }

    pub(crate) fn is_good(self) -> bool {
        GOOD.contains(&self)
    }

    /// Whether what is mounted shows the source's file.
    pub(crate) fn shows_source(self) -> bool {
        matches!(self, Self::Bind | Self::BindDetached | Self::BindKept | Self::BindLimited | Self::BindOutside)
    }

    /// What becomes of it when its client dies. `None`: it has none.
    pub(crate) fn on_exit(self) -> Option<OnExit> {
        match self {
            Self::Bind | Self::BindLimited | Self::BindOutside => Some(OnExit::Heal),
            Self::BindDetached => Some(OnExit::Detach),
            Self::BindKept => Some(OnExit::Keep),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnExit {
    Heal,
    Detach,
    Keep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    Cli,
    /// mount(8), which runs mount.TYPE.
    Helper,
    /// kubelet's mounter.
    Mounter,
}

pub(crate) const FRONTS: &[Front] = &[Front::Cli, Front::Cli, Front::Helper, Front::Mounter];
pub(crate) const SOURCE: &str = "/srv/source";
pub(crate) const CONTENT: &[u8] = b"what the source holds";
const IMAGE: &str = "/srv/stalling";

pub(crate) struct Scene {
    binary: PathBuf,
    mounter: PathBuf,
    pub(crate) run: PathBuf,
    findings: Mutex<Vec<String>>,
}

impl Scene {
    pub(crate) fn set(host: &Host) -> Self {
        host.directory("source");
        fs::set_permissions(SOURCE, fs::Permissions::from_mode(0o777)).expect("it is ours");
        fs::write(Path::new(SOURCE).join("file"), CONTENT).expect("it is ours");
        define(host);
        let mounter = host.install("kubernetes/mounter");
        host.install_helpers(
            &GOOD.iter().map(|kind| format!("mount.{}", kind.fstype())).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>(),
        );
        Self { binary: host.binary().to_owned(), mounter, run: host.run_directory().to_owned(), findings: Mutex::default() }
    }

    /// `bad` kinds only through the CLI, which takes a timeout.
    pub(crate) fn mount(&self, kind: Kind, front: Front, target: &Path) -> Command {
        let source = kind.source();
        let mut command = match front {
            Front::Helper if kind.is_good() => Command::new("mount"),
            Front::Mounter if kind.is_good() => {
                let mut command = Command::new(&self.mounter);
                command.arg("mount");
                command
            }
            _ => {
                let mut command = Command::new(&self.binary);
                command.args(["mount", "--timeout", if kind.is_good() { "40s" } else { "1s" }]);
                command
            }
        };
        command.args(["-t", kind.fstype(), &source]).arg(target);
        command
    }

    /// On top of a mount of ours, too.
    pub(crate) fn mount_over(&self, kind: Kind, target: &Path) -> Command {
        let mut command = self.mount(kind, Front::Cli, target);
        command.arg("--over");
        command
    }

    pub(crate) fn shorefast(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(words);
        command
    }

    pub(crate) fn call(&self, words: &[&str]) -> Answer {
        call::run(self.shorefast(words))
    }

    /// What `list` says of these targets.
    pub(crate) fn listed(&self, target: &Path) -> Result<Vec<String>, String> {
        let answer = self.call(&["list", "--json"]);
        let rows: Vec<serde_json::Value> = serde_json::from_str(&answer.words).map_err(|error| format!("{error}: {answer}"))?;
        let of_target = rows.iter().filter(|row| row["target"] == *target.to_string_lossy());
        Ok(of_target.map(|row| row["state"].as_str().unwrap_or_default().to_owned()).collect())
    }

    pub(crate) fn finding(&self, text: String) {
        self.findings.lock().expect("no thread panics with it").push(text);
    }

    /// Whatever a call was for: it ends, and does not panic.
    pub(crate) fn check_manners(&self, answer: &Answer) {
        if answer.hung || answer.code == Some(101) || answer.words.contains("panicked at") {
            self.finding(answer.to_string());
        }
    }

    pub(crate) fn into_findings(self) -> Vec<String> {
        self.findings.into_inner().expect("no thread panics with it")
    }
}

fn define(host: &Host) {
    let image = |name: &str| format!("image = \"dir:{}\"", client::images().join(name).display());
    let bindfs = fs::read_to_string(Client::named("bindfs").definition).expect("a definition can be read");
    let bind = |kind: Kind, keys: &str| {
        let kept: String = bindfs
            .lines()
            .filter(|line| {
                !line.starts_with("types") && (keys.is_empty() || !keys.starts_with("namespaces") || !line.starts_with("namespaces"))
            })
            .map(|line| format!("{line}\n"))
            .collect();
        host.define(kind.fstype(), &format!("types = [\"{}\"]\n{}\n{kept}{keys}\n", kind.fstype(), image("bindfs")));
    };
    bind(Kind::Bind, "");
    bind(Kind::BindDetached, "on_exit = \"detach\"");
    bind(Kind::BindKept, "on_exit = \"keep\"");
    bind(Kind::BindLimited, "limits = { memory = \"256M\", pids = 64 }");
    bind(Kind::BindOutside, "namespaces = { pid = \"host\" }");
    let script = |kind: Kind, script: &str| {
        let name = kind.fstype();
        let command = format!("[\"sh\", \"-c\", '{script}', \"sh\", \"{{target}}\"]");
        host.define(name, &format!("types = [\"{name}\"]\nkernel_types = [\"tmpfs\"]\n{}\ncommand = {command}\n", image("tmpfs")));
    };
    script(Kind::Memory, "exec mount -t tmpfs none \"$1\"");
    script(Kind::Slow, "sleep 0.2; exec mount -t tmpfs none \"$1\"");
    script(Kind::Failing, "echo no server; exit 3");
    script(Kind::Quitting, "mount -t tmpfs none \"$1\"; exit 1");
    script(Kind::Idle, "exec sleep 1000");
    hostile::make_image(Path::new(IMAGE));
    let name = Kind::Stalling(0).fstype();
    let command = "[\"/usr/bin/hostile\", \"stall\", \"{source}\", \"{target}\"]";
    host.define(name, &format!("types = [\"{name}\"]\nkernel_types = [\"fuse\"]\nimage = \"dir:{IMAGE}\"\ncommand = {command}\n"));
}
