//! How long users of a mount wait when its client dies: from SIGKILL until an operation by path that was begun then has its answer from a
//! new client. In turns with native mounts of the same client, which is the least that any solution has to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use shorefast_tests::Host;
use shorefast_tests::servers::Sshd;

use super::filesystem::Filesystem;
use super::numbers::{Goal, Limit, Measured, NATIVE, Series, Unit, find};
use super::way::Way;

const HEALED: &str = "healed";
const CROWD: usize = 100;
const PATIENCE: Duration = Duration::from_secs(30);
/// After each round: the remains of the old client are removed outside of the measured time.
const AFTERWARDS: Duration = Duration::from_millis(50);

pub(super) fn measure(host: &Host, n: usize) -> Result<Measured> {
    let sshd = Sshd::start(host);
    let mut series = Vec::new();
    let filesystems = [Filesystem::bindfs(host), Filesystem::new("sshfs", sshd.source(), sshd.options())];
    for filesystem in &filesystems {
        for namespaces in [1, CROWD] {
            series.extend(compare(host, filesystem, namespaces, n)?);
        }
    }
    let names = filesystems.iter().flat_map(|filesystem| [1, CROWD].map(|namespaces| (title(filesystem, namespaces), namespaces)));
    let goals = names.map(|(what, namespaces)| goal(&series, &what, if namespaces == 1 { 10.0 } else { 30.0 })).collect();
    Ok(Measured {
        title: "Healing: from SIGKILL until a new client answers".to_owned(),
        note: "An operation by path, begun right after the kill, beside native mounts in turns. Other mount namespaces have a private copy of the mount.".to_owned(),
        unit: Unit::Milliseconds,
        goals,
        series,
    })
}

fn title(filesystem: &Filesystem, namespaces: usize) -> String {
    let many = if namespaces == 1 { "1 namespace".to_owned() } else { format!("{namespaces} namespaces") };
    format!("{}, {many}", filesystem.name)
}

fn goal(series: &[Series], what: &str, most: f64) -> Goal {
    let p50 = |way| find(series, what, way).map_or(f64::NAN, Series::p50);
    Goal {
        what: format!("{what}: healed − native"), reached: p50(HEALED) - p50(NATIVE), limit: Limit::AtMost(most), unit: "ms".to_owned()
    }
}

fn compare(host: &Host, filesystem: &Filesystem, namespaces: usize, n: usize) -> Result<Vec<Series>> {
    let what = title(filesystem, namespaces);
    let native = Way::native(filesystem, &host.directory("native"));
    let mortal = Mortal::mount(host, filesystem)?;
    let others = (1..namespaces).map(|_| Other::start(&mortal.target)).collect::<Result<Vec<_>>>()?;
    let mut series = [Series::new(&what, NATIVE), Series::new(&what, HEALED)];
    // What is used for the first time is read from the disk: not measured.
    mount(&native)?;
    mortal.heal(0)?;
    for round in 0..n {
        series[0].values.push(mount(&native)?);
        series[1].values.push(mortal.heal(round + 1)?);
        if (round + 1).is_multiple_of(n.div_ceil(4).max(10)) {
            eprintln!("{what}: {} of {n} rounds", round + 1);
        }
    }
    for other in &others {
        let table = fs::read_to_string(format!("/proc/{}/mountinfo", other.0.id())).context("cannot read a mount table")?;
        let minor = mortal.inspect()?["device"].as_str().unwrap_or_default().to_owned();
        ensure!(table.contains(&format!(" {minor} ")), "a namespace was forgotten");
    }
    drop(others);
    mortal.end()?;
    Ok(series.into())
}

fn mount(way: &Way) -> Result<f64> {
    let live = way.mount()?;
    let took = live.took;
    live.end()?;
    thread::sleep(AFTERWARDS);
    Ok(took.as_secs_f64() * 1e3)
}

/// A mount whose client dies again and again.
struct Mortal<'a> {
    host: &'a Host,
    target: PathBuf,
}

impl<'a> Mortal<'a> {
    fn mount(host: &'a Host, filesystem: &Filesystem) -> Result<Self> {
        let target = host.directory("mortal");
        let mut words = filesystem.sandboxed(host, &target);
        words.extend(["-o".into(), "shorefast-crashes=1000000".into()]);
        let output = Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).output().context("cannot start it")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(Self { host, target })
    }

    fn inspect(&self) -> Result<Value> {
        let target = self.target.to_str().context("a path in UTF-8")?;
        Ok(self.host.shorefast(&["inspect", "--json", target]).succeeds().json())
    }

    /// In milliseconds.
    fn heal(&self, round: usize) -> Result<f64> {
        let before = self.inspect()?;
        let pid = before["pid"].as_i64().and_then(|pid| Pid::from_raw(pid as i32)).context("no client")?;
        // A name that was not looked up before, so that the kernel has to ask the client.
        let name = self.target.join(format!("missing-{round}-{}", pid.as_raw_nonzero()));
        let start = Instant::now();
        kill_process(pid, Signal::KILL).context("cannot kill the client")?;
        let answer = fs::symlink_metadata(&name);
        let took = start.elapsed();
        ensure!(answer.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound), "{answer:?}");
        self.settle(&before)?;
        Ok(took.as_secs_f64() * 1e3)
    }

    /// Until the process that healed it has done everything.
    fn settle(&self, before: &Value) -> Result<()> {
        let gone = |key: &str| before[key].as_i64().is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        let end = Instant::now() + PATIENCE;
        while !(gone("keeper") && gone("init")) {
            ensure!(Instant::now() < end, "the process that heals does not end");
            thread::sleep(Duration::from_millis(2));
        }
        thread::sleep(AFTERWARDS);
        Ok(())
    }

    fn end(self) -> Result<()> {
        self.host.shorefast(&["umount", self.target.to_str().context("a path in UTF-8")?]).succeeds();
        Ok(())
    }
}

/// A process in a mount namespace of its own, which has a private copy of everything. Dropped: gone.
struct Other(Child);

impl Other {
    fn start(target: &Path) -> Result<Self> {
        let words = ["--mount", "--propagation", "private", "sleep", "100000"];
        let child = Command::new("unshare").args(words).stdin(Stdio::null()).spawn().context("cannot start unshare")?;
        let other = Self(child);
        let (end, own) = (Instant::now() + PATIENCE, fs::read_link("/proc/self/ns/mnt")?);
        let has_it = || {
            let at = |file: &str| format!("/proc/{}/{file}", other.0.id());
            let is_apart = fs::read_link(at("ns/mnt")).is_ok_and(|namespace| namespace != own);
            is_apart && fs::read_to_string(at("comm")).is_ok_and(|name| name == "sleep\n")
        };
        while !has_it() {
            ensure!(Instant::now() < end, "{} is not seen in another namespace", target.display());
            thread::sleep(Duration::from_millis(1));
        }
        Ok(other)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // A child of ours: its pid is its own until it is waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
