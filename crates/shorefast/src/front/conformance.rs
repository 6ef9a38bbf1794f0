//! `shorefast client test`: a definition is tried as its users will use it, by this very binary, and what was seen becomes a report.
//!
//! Every step is one call of ours, or a look at the mount or at /proc, with a deadline. After a failure the rest is skipped, and what is
//! mounted is unmounted.

mod look;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::thread::CapabilitySet;
use serde::Serialize;
use shorefast_engine::{Error, client, text};

use crate::front::conformance::look::Seen;
use crate::front::places::Places;
use crate::front::table;
use crate::report;

#[derive(Debug, Args)]
pub struct TestArguments {
    /// The client's definition
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What to mount
    #[arg(long)]
    source: String,
    /// As in `mount -o`; with `ro` nothing is written
    #[arg(long, short = 'o')]
    options: Option<String>,
    /// As in `mount --secret-file`
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// A directory below the mount in which files can be created, if not the mount's root
    #[arg(long, value_name = "DIR", default_value = ".")]
    writable: PathBuf,
    /// {client, image, source, kernel, shorefast, passed, checks: [{check, outcome, detail, seconds}]}
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    client: String,
    image: Option<String>,
    source: String,
    kernel: String,
    shorefast: &'static str,
    passed: bool,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct Check {
    check: &'static str,
    outcome: Outcome,
    detail: String,
    seconds: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// How long a killed client may leave something behind, or take to come back.
const AFTER_KILL: Duration = Duration::from_secs(20);

pub fn run(arguments: &TestArguments, places: &Places) -> Result<ExitCode, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let tried = client::check(&arguments.file)?;
    let target = look::target();
    std::fs::DirBuilder::new().mode(0o755).create(&target).map_err(|source| Error::HostFile { path: target.clone(), source })?;
    let mut trial = Trial {
        arguments,
        places,
        fstype: tried.definition.types.first().cloned().unwrap_or_default(),
        capabilities: tried.definition.source_access.capabilities(),
        target: target.clone(),
        checks: Vec::new(),
        failed: false,
    };
    trial.all();
    // Whatever happened, nothing of the trial stays.
    if look::is_mounted(&target) {
        trial.call(&["umount", "--force", &target.to_string_lossy()]);
    }
    let _ = std::fs::remove_dir(&target);
    let report = Report {
        client: tried.name,
        image: tried.definition.image,
        source: arguments.source.clone(),
        kernel: look::kernel(),
        shorefast: env!("CARGO_PKG_VERSION"),
        passed: !trial.failed,
        checks: trial.checks,
    };
    let shown = if arguments.json { serde_json::to_string_pretty(&report).unwrap_or_default() + "\n" } else { as_text(&report) };
    report::print(&shown);
    Ok(if report.passed { ExitCode::SUCCESS } else { ExitCode::from(32) })
}

struct Trial<'a> {
    arguments: &'a TestArguments,
    places: &'a Places,
    fstype: String,
    /// What the definition gives the client, in a user namespace of its own.
    capabilities: CapabilitySet,
    target: PathBuf,
    checks: Vec<Check>,
    failed: bool,
}

impl Trial<'_> {
    fn all(&mut self) {
        let target = self.target.clone();
        let place = target.join(&self.arguments.writable);
        let read_only = self.arguments.options.as_deref().is_some_and(|options| options.split(',').any(|option| option == "ro"));
        self.step("mounts, and gets its image", |trial| trial.mount());
        self.step("lists its root", |_| look::lists(&target));
        if read_only {
            self.skip("writes and reads back", "mounted read-only");
        } else {
            self.step("writes and reads back", move |_| look::writes(&place));
        }
        self.step("has no privileges", |trial| look::privileges(&trial.processes()?, trial.capabilities));
        self.step("memory", |trial| look::memory(&trial.processes()?));
        self.step("unmounts, and leaves nothing", |trial| trial.unmount());
        self.step("mounts again", |trial| trial.mount());
        self.step("is killed, and leaves nothing", |trial| trial.kill());
    }

    fn step(&mut self, check: &'static str, act: impl FnOnce(&Self) -> Seen) {
        if self.failed {
            return self.skip(check, "after a failure");
        }
        let began = Instant::now();
        let (outcome, detail) = match act(self) {
            Ok(detail) => (Outcome::Passed, detail),
            Err(detail) => (Outcome::Failed, detail),
        };
        self.failed |= outcome == Outcome::Failed;
        self.checks.push(Check { check, outcome, detail, seconds: began.elapsed().as_secs_f64() });
    }

    fn skip(&mut self, check: &'static str, why: &str) {
        self.checks.push(Check { check, outcome: Outcome::Skipped, detail: why.to_owned(), seconds: 0.0 });
    }

    /// This binary, with the same places.
    fn call(&self, words: &[&str]) -> Option<Output> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("--root").arg(&self.places.root).arg("--run-dir").arg(&self.places.run_dir);
        command.args(words).output().ok()
    }

    fn succeeds(&self, words: &[&str]) -> Result<Output, String> {
        let output = self.call(words).ok_or("cannot start this program again")?;
        if output.status.success() { Ok(output) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
    }

    fn mount(&self) -> Seen {
        let (file, target) = (self.arguments.file.to_string_lossy(), self.target.to_string_lossy());
        let mut words = vec!["mount", "-t", &self.fstype, "--client-file", &file];
        if let Some(options) = &self.arguments.options {
            words.extend(["-o", options]);
        }
        let secret = self.arguments.secret_file.as_ref().map(|file| file.to_string_lossy());
        if let Some(secret) = &secret {
            words.extend(["--secret-file", secret]);
        }
        words.extend(["--", &self.arguments.source, &target]);
        self.succeeds(&words)?;
        if look::is_mounted(&self.target) { Ok(String::new()) } else { Err("the call succeeded, but nothing is mounted".to_owned()) }
    }

    fn row(&self) -> Result<Option<serde_json::Value>, String> {
        let output = self.succeeds(&["list", "--json"])?;
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        let target = text::escape(self.target.as_os_str().as_encoded_bytes());
        Ok(rows.into_iter().find(|row| row["target"] == target.as_str()))
    }

    fn daemon(&self) -> Result<Option<i32>, String> {
        let row = self.row()?.ok_or("`list` does not show the mount")?;
        Ok(row["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()))
    }

    /// Those of the sandbox: what has the daemon's pid namespace. None for a filesystem that the kernel serves.
    fn processes(&self) -> Result<Vec<i32>, String> {
        Ok(self.daemon()?.map(look::companions).unwrap_or_default())
    }

    fn unmount(&self) -> Seen {
        let processes = self.processes()?;
        self.succeeds(&["umount", &self.target.to_string_lossy()])?;
        self.nothing_left(&processes)
    }

    fn nothing_left(&self, processes: &[i32]) -> Seen {
        if look::is_mounted(&self.target) {
            return Err("it is still mounted".to_owned());
        }
        if self.row()?.is_some() {
            return Err("its record is still there".to_owned());
        }
        match look::ended(processes, Duration::from_secs(5)) {
            true => Ok(String::new()),
            false => Err(format!("processes of it are still there: {processes:?}")),
        }
    }

    /// Gone with all that was its own, or served again.
    fn kill(&self) -> Seen {
        let Some(daemon) = self.daemon()? else {
            self.unmount()?;
            return Ok("the kernel serves it: there is nothing to kill".to_owned());
        };
        let processes = self.processes()?;
        let began = Instant::now();
        look::kill(daemon)?;
        while began.elapsed() < AFTER_KILL {
            std::thread::sleep(Duration::from_millis(50));
            if !look::is_mounted(&self.target) && self.row()?.is_none() {
                self.nothing_left(&processes)?;
                return Ok("the mount went with its client".to_owned());
            }
            let row = self.row()?;
            let again = row.as_ref().and_then(|row| row["pid"].as_i64()).is_some_and(|pid| pid != i64::from(daemon));
            if again && look::lists(&self.target).is_ok() {
                self.unmount()?;
                return Ok(format!("it was served again after {:.1} s", began.elapsed().as_secs_f64()));
            }
        }
        self.unmount().map(|_| "the dead mount stayed until it was unmounted (on_exit)".to_owned())
    }
}

fn as_text(report: &Report) -> String {
    let mut lines = vec![["CHECK", "OUTCOME", "SECONDS", "DETAIL"].map(str::to_owned)];
    for check in &report.checks {
        let outcome = match check.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Skipped => "skipped",
        };
        let detail = text::escape(check.detail.lines().collect::<Vec<_>>().join("; ").as_bytes());
        lines.push([check.check.to_owned(), outcome.to_owned(), format!("{:.2}", check.seconds), detail]);
    }
    let image = report.image.as_deref().unwrap_or("none");
    let head = format!("client {}, image {image}, shorefast {}, Linux {}", report.client, report.shorefast, report.kernel);
    format!("{}\n{}{}\n", text::escape(head.as_bytes()), table::table(&lines), if report.passed { "passed" } else { "FAILED" })
}
