//! `shorefast upgrade …`: live mounts get clients of the current configuration, one after the other, each by a process of its own.

use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{ArgGroup, Args};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use shorefast_engine::configuration::Configuration;
use shorefast_engine::error::Failure;
use shorefast_engine::record::Record;
use shorefast_engine::records::Records;
use shorefast_engine::text::{self, printable_line};
use shorefast_engine::upgrade::{self, Changes, Fetch, Prospect, Upgraded};
use shorefast_engine::{Error, Host};
use shorefast_image::store::Network;
use shorefast_worker::{Answer, Operation, Workers};

use crate::front::candidates;
use crate::front::places::Places;
use crate::front::timeout;
use crate::report;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["client", "all", "targets"]))]
pub struct UpgradeArguments {
    /// All mounts of this client
    #[arg(long, value_name = "NAME", add = candidates::client_names())]
    client: Option<String>,
    /// All mounts that have a client
    #[arg(long)]
    all: bool,
    /// Show what would change, and do nothing; no image is fetched
    #[arg(long)]
    dry_run: bool,
    /// How long to wait until no process has locks on a mount: a new client would not know them
    #[arg(long, value_name = "TIME", value_parser = timeout::parse, default_value = "10s")]
    wait: humantime::Duration,
    /// A JSON array of {target, id, client, result, image, definition, before, draining, degraded, locks, milliseconds, error}
    #[arg(long)]
    json: bool,
    /// Where something is mounted, or the ids of mounts
    #[arg(value_name = "TARGET", add = candidates::targets())]
    targets: Vec<PathBuf>,
}

/// A step of the new client's has a deadline of its own; this is for a worker that is stuck.
const ALTOGETHER: Duration = Duration::from_secs(60 * 60);

/// Each is tried; the first failure decides the exit code.
#[inline(never)]
pub fn run(arguments: &UpgradeArguments, places: &Places, records: &Records) -> Result<ExitCode, Error> {
    let (configuration, host) = (places.configuration()?, places.host(Network::Allowed));
    let workers = Workers::of_this_binary(places.installation(Network::Allowed));
    let workers = workers.map_err(|source| Error::Record { path: "/proc/self/exe".into(), source })?;
    let targets = targets(arguments, records)?;
    let (mut rows, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for (number, target) in targets.iter().enumerate() {
        let progress = Progress::begin(&format!("{}/{} {}", number + 1, targets.len(), target.shown.display()));
        let row = upgrade(&target.named, arguments, &Around { records, configuration: &configuration, host: &host, workers: &workers });
        progress.end();
        if let Err(problem) = &row {
            let failed = match problem {
                Problem::Ours(error) => report::failure(error),
                Problem::OfWorker(failure) => report::failure_of_worker(failure),
            };
            code = if code == ExitCode::SUCCESS { failed } else { code };
        }
        match arguments.json {
            true => rows.push(in_json(&target.shown, &row)),
            false => report::print(&row.as_ref().map(|done| in_words(&target.shown, done)).unwrap_or_default()),
        }
    }
    if arguments.json {
        report::print(&format!("{:#}\n", Value::from(rows)));
    } else if targets.is_empty() {
        report::print("no live mount has such a client: nothing to do\n");
    }
    Ok(code)
}

struct Target {
    /// As the engine finds it.
    named: PathBuf,
    /// For display.
    shown: PathBuf,
}

fn targets(arguments: &UpgradeArguments, records: &Records) -> Result<Vec<Target>, Error> {
    if !arguments.targets.is_empty() {
        return Ok(arguments.targets.iter().map(|target| Target { named: target.clone(), shown: target.clone() }).collect());
    }
    let all = upgrade::candidates(records, arguments.client.as_deref())?;
    // A place may have several mounts, or be in another namespace.
    Ok(all.into_iter().map(|record| Target { named: record.id.into(), shown: record.target }).collect())
}

struct Around<'a> {
    records: &'a Records,
    configuration: &'a Configuration,
    host: &'a Host,
    workers: &'a Workers,
}

enum Done {
    /// Image and definition have not changed.
    Nothing(Box<Prospect>),
    Planned(Box<Prospect>),
    Upgraded(Box<Upgraded>),
}

enum Problem {
    Ours(Error),
    OfWorker(Box<Failure>),
}

fn upgrade(target: &Path, arguments: &UpgradeArguments, around: &Around<'_>) -> Result<Done, Problem> {
    let fetch = if arguments.dry_run { Fetch::Never } else { Fetch::Now };
    // Here, because this process can show how an image arrives.
    let prospect = upgrade::prospect(around.records, around.host, around.configuration, target, fetch).map_err(Problem::Ours)?;
    match (prospect.changes.is_empty(), arguments.dry_run) {
        (true, _) => return Ok(Done::Nothing(Box::new(prospect))),
        (false, true) => return Ok(Done::Planned(Box::new(prospect))),
        (false, false) => {}
    }
    let operation = Operation::Upgrade { target: prospect.record.id.into(), wait: arguments.wait.into() };
    match around.workers.ask(operation, &[], Instant::now() + ALTOGETHER).result.map_err(|failure| Problem::OfWorker(Box::new(failure)))? {
        Answer::Upgraded(upgraded) => Ok(Done::Upgraded(upgraded)),
        other => unreachable!("an upgrade is answered with {other:?}"),
    }
}

impl Done {
    fn parts(&self) -> (&'static str, &Record, &Changes) {
        match self {
            Self::Nothing(prospect) => ("unchanged", &prospect.record, &prospect.changes),
            Self::Planned(prospect) => ("planned", &prospect.record, &prospect.changes),
            Self::Upgraded(upgraded) if upgraded.before.is_none() => ("unchanged", &upgraded.record, &upgraded.changes),
            Self::Upgraded(upgraded) => ("upgraded", &upgraded.record, &upgraded.changes),
        }
    }

    fn upgraded(&self) -> Option<&Upgraded> {
        if let Self::Upgraded(upgraded) = self { Some(upgraded) } else { None }
    }
}

fn in_words(target: &Path, done: &Done) -> String {
    let target = text::escape(target.as_os_str().as_bytes());
    let (result, record, changes) = done.parts();
    let Some(upgraded) = done.upgraded().filter(|_| result == "upgraded") else {
        return match result {
            "planned" => format!("{target}: would get a new client ({changes})\n"),
            _ => format!("{target}: nothing to do: image and definition are current\n"),
        };
    };
    let mut lines = format!("{target}: has a new client ({changes}) after {} ms\n", upgraded.milliseconds);
    if let Some(pid) = upgraded.draining {
        lines.push_str(&format!("{target}: the old one (pid {pid}) serves what is open on it until that is closed\n"));
    }
    for place in &record.degraded {
        lines.push_str(&format!("{target}: still the old one: {place}\n"));
    }
    if !upgraded.locks.is_empty() {
        lines.push_str(&format!("{target}: the new one does not know the locks of {}\n", upgraded.locks.join(", ")));
    }
    lines
}

fn in_json(target: &Path, row: &Result<Done, Problem>) -> Value {
    let target = text::escape(target.as_os_str().as_bytes());
    let done = match row {
        Ok(done) => done,
        Err(problem) => {
            let failure = match problem {
                Problem::Ours(error) => Failure::from(error),
                Problem::OfWorker(failure) => (**failure).clone(),
            };
            let error = json!({ "kind": failure.kind, "message": failure.message, "hint": failure.hint, "helper": failure.helper });
            return json!({
                "target": target, "id": null, "client": null, "result": "failed", "image": null, "definition": [], "before": null,
                "draining": null, "degraded": [], "locks": [], "milliseconds": null, "error": error,
            });
        }
    };
    let ((result, record, changes), upgraded) = (done.parts(), done.upgraded());
    json!({
        "target": target,
        "id": record.id,
        "client": record.client,
        "result": result,
        "image": changes.image,
        "definition": changes.definition,
        "before": upgraded.and_then(|upgraded| upgraded.before.as_ref()).map(|before| &before.id),
        "draining": upgraded.and_then(|upgraded| upgraded.draining),
        "degraded": record.degraded,
        "locks": upgraded.map(|upgraded| upgraded.locks.clone()).unwrap_or_default(),
        "milliseconds": upgraded.map(|upgraded| upgraded.milliseconds),
        "error": null,
    })
}

/// What is being done, on a terminal only.
struct Progress(Option<ProgressBar>);

impl Progress {
    fn begin(what: &str) -> Self {
        let bar = std::io::stderr().is_terminal().then(ProgressBar::new_spinner);
        if let Some(bar) = &bar {
            bar.set_style(ProgressStyle::with_template("{spinner} {msg} {elapsed}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.set_message(printable_line(what).into_owned());
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Self(bar)
    }

    fn end(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}
