//! In: mounts and reports. Out: tables for a terminal, and JSON.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use shorefast_engine::list::{InProgress, Listed};
use shorefast_engine::reconcile::Report;
use shorefast_engine::record::Crash;
use shorefast_engine::records::Records;
use shorefast_engine::state::{Standing, State};
use shorefast_engine::{Error, find, list, text};
use shorefast_sys::ring::Log;

use crate::report;

pub fn list(records: &Records, json: bool) -> Result<String, Error> {
    let listing = list::all(records)?;
    for (path, why) in &listing.unreadable {
        report::say(&format!("shorefast: {} is not a record: {why} (`shorefast reconcile` moves it away)", path.display()));
    }
    if json {
        let rows: Vec<_> = listing.mounts.iter().map(row).chain(listing.in_progress.iter().map(row_in_progress)).collect();
        return Ok(format!("{:#}\n", Value::from(rows)));
    }
    let mut lines = vec![["TARGET", "SOURCE", "TYPE", "CLIENT", "IMAGE", "STATE", "PID", "SINCE"].map(str::to_owned)];
    lines.extend(listing.mounts.iter().map(|listed| {
        let record = &listed.record;
        [
            text::escape(listed.target().as_os_str().as_bytes()),
            text::escape(record.source.as_bytes()),
            record.fstype.clone(),
            record.client.clone(),
            record.digest.map_or_else(|| "-".to_owned(), |digest| digest.short()),
            listed.standing.as_ref().map(in_words).unwrap_or_default(),
            record.daemon().map_or_else(|| "-".to_owned(), |daemon| daemon.to_string()),
            at(record.since),
        ]
    }));
    lines.extend(listing.in_progress.iter().map(|InProgress { mount, pid, .. }| {
        let (target, pid) = (text::escape(mount.target.as_os_str().as_bytes()), pid.to_string());
        [target, "-".to_owned(), "-".to_owned(), mount.client.clone(), "-".to_owned(), MOUNTING.to_owned(), pid, at(mount.since)]
    }));
    Ok(table(&lines))
}

/// The state of an unfinished mount. Its pid is that of the launching process.
const MOUNTING: &str = "mounting";

fn row_in_progress(InProgress { id, mount, pid }: &InProgress) -> Value {
    json!({
        "id": id,
        "target": text::escape(mount.target.as_os_str().as_bytes()),
        "source": null,
        "fstype": null,
        "client": mount.client,
        "image": mount.image,
        "digest": null,
        "mode": mount.mode,
        "pid": pid,
        "state": MOUNTING,
        "covered": false,
        "namespace": null,
        "since": at(mount.since),
    })
}

/// The documented row of `list --json`.
fn row(listed: &Listed) -> Value {
    let (record, standing) = (&listed.record, listed.standing.as_ref());
    json!({
        "id": record.id,
        "target": text::escape(listed.target().as_os_str().as_bytes()),
        "source": text::escape(record.source.as_bytes()),
        "fstype": record.fstype,
        "client": record.client,
        "image": record.image,
        "digest": record.digest,
        "mode": record.mode,
        "pid": record.daemon(),
        "state": standing.map_or(State::Dead, |standing| standing.state),
        "covered": standing.is_some_and(|standing| standing.covered),
        "namespace": standing.and_then(|standing| standing.elsewhere),
        "since": at(record.since),
    })
}

pub fn inspect(records: &Records, target: &Path, json: bool) -> Result<String, Error> {
    let listed = list::one(records, target)?;
    let (mut value, record) = (row(&listed), &listed.record);
    let more = json!({
        "init": record.init.map(|process| process.pid),
        "keeper": record.keeper.map(|process| process.pid),
        "mount_id": record.mount.id,
        "device": format!("{}:{}", record.mount.major, record.mount.minor),
        "cgroups": record.cgroup,
        "limits": record.limits,
        "on_exit": record.on_exit().name(),
        "crashes": record.crashes.iter().map(crash).collect::<Vec<_>>(),
        "degraded": record.degraded,
        "replaced_by": record.replaced_by,
        "log": text::escape(records.log(&record.id).as_os_str().as_bytes()),
    });
    if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
        value.extend(more);
    }
    if json {
        return Ok(format!("{value:#}\n"));
    }
    Ok(lines(&value))
}

fn crash(crash: &Crash) -> Value {
    json!({
        "at": at(crash.at),
        "client": crash.status.map_or_else(|| "killed with its sandbox".to_owned(), |status| status.to_string()),
        "healed_after_ms": crash.healed_after_ms,
        "problem": crash.problem,
    })
}

/// A JSON object for display: a line per key.
pub(crate) fn lines(value: &Value) -> String {
    let lines = value.as_object().into_iter().flatten().map(|(key, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        [format!("{key}:"), value]
    });
    table(&lines.collect::<Vec<_>>())
}

pub fn logs(records: &Records, target: &Path, follow: bool) -> Result<(), Error> {
    let record = find::find(records, target)?;
    let path = records.log(&record.id);
    let is_terminal = std::io::stdout().is_terminal();
    let mut seen = 0;
    loop {
        let log = match Log::read(&path) {
            // The mount ended, and its log with it.
            Err(_) if seen > 0 || follow => return Ok(()),
            log => log.map_err(|source| Error::Record { path: path.clone(), source })?,
        };
        let mut out = std::io::stdout().lock();
        if out.write_all(&for_reader(log.since(seen), is_terminal)).and_then(|()| out.flush()).is_err() || !follow {
            return Ok(());
        }
        seen = log.written;
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A program gets the client's output byte for byte; on a terminal, control characters are filtered.
fn for_reader(log: &[u8], is_terminal: bool) -> Cow<'_, [u8]> {
    if !is_terminal {
        return Cow::Borrowed(log);
    }
    Cow::Owned(text::printable(&String::from_utf8_lossy(log)).into_owned().into_bytes())
}

pub fn reconciled(report: &Report, json: bool) -> String {
    if json {
        return format!("{:#}\n", json!(report));
    }
    let line = |what: &str, ids: &[String]| if ids.is_empty() { String::new() } else { format!("{what}: {}\n", ids.join(" ")) };
    let aside: Vec<_> = report.set_aside.iter().map(|path| path.display().to_string()).collect();
    [
        line("abandoned mounts undone", &report.abandoned),
        line("ended mounts cleaned up", &report.ended),
        line("dead mounts that something else is mounted on", &report.dead),
        line("mounts whose lost record was restored", &report.adopted),
        line("unreadable records moved away", &aside),
        line("empty cgroups of lost mounts removed", &report.cgroups),
    ]
    .concat()
}

fn in_words(standing: &Standing) -> String {
    let state = match standing.state {
        State::Serving => "serving",
        State::Dead => "dead",
        State::Healing => "healing",
        State::Failed => "failed",
        State::Detached => "detached",
        State::Draining => "draining",
    };
    let covered = if standing.covered { ",covered" } else { "" };
    let elsewhere = standing.elsewhere.map(|namespace| format!(",mnt:[{namespace}]")).unwrap_or_default();
    format!("{state}{covered}{elsewhere}")
}

fn at(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

pub(crate) fn table<const COLUMNS: usize>(lines: &[[String; COLUMNS]]) -> String {
    // No cell can begin a new line.
    let lines: Vec<_> = lines.iter().map(|line| line.each_ref().map(|cell| text::printable_line(cell))).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let padded: Vec<_> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    text
}
