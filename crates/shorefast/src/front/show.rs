//! What people and machines get to see of mounts.

use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use shorefast_engine::reconcile::Report;
use shorefast_engine::record::{Record, Records};
use shorefast_engine::state::{self, State};
use shorefast_engine::{Error, text, unmount};
use shorefast_sys::ring::Log;

pub fn list(records: &Records, json: bool) -> Result<String, Error> {
    // One that ended while nobody watched is not listed; `reconcile` removes its record.
    let all: Vec<_> = records.all()?.into_iter().filter_map(|record| state::of(&record).map(|state| (record, state))).collect();
    if json {
        let rows: Vec<_> = all.iter().map(|(record, state)| row(record, *state)).collect();
        return Ok(format!("{:#}\n", Value::from(rows)));
    }
    let mut lines = vec![["TARGET", "SOURCE", "TYPE", "CLIENT", "IMAGE", "STATE", "PID", "SINCE"].map(str::to_owned)];
    lines.extend(all.iter().map(|(record, state)| {
        [
            shown(record.target.as_os_str().as_bytes()),
            shown(record.source.as_bytes()),
            record.fstype.clone(),
            record.client.clone(),
            record.digest.map_or_else(|| "-".to_owned(), |digest| digest.short()),
            name(*state).to_owned(),
            record.daemon().map_or_else(|| "-".to_owned(), |daemon| daemon.pid.to_string()),
            since(record),
        ]
    }));
    Ok(table(&lines))
}

/// Fit for one cell of a table.
pub(crate) fn shown(bytes: &[u8]) -> String {
    text::escape(bytes).replace('\n', "\\012")
}

/// The documented row of `list --json`.
fn row(record: &Record, state: State) -> Value {
    json!({
        "id": record.id,
        "target": text::escape(record.target.as_os_str().as_bytes()),
        "source": text::escape(record.source.as_bytes()),
        "fstype": record.fstype,
        "client": record.client,
        "image": record.image,
        "digest": record.digest,
        "mode": record.mode,
        "pid": record.daemon().map(|daemon| daemon.pid),
        "state": state,
        "since": since(record),
    })
}

pub fn inspect(records: &Records, target: &Path, json: bool) -> Result<String, Error> {
    let record = unmount::find(records, target)?;
    let state = state::of(&record);
    let mut value = row(&record, state.unwrap_or(State::Dead));
    let more = json!({
        "init": record.init.map(|process| process.pid),
        "keeper": record.keeper.map(|process| process.pid),
        "mount_id": record.mount.id,
        "device": format!("{}:{}", record.mount.major, record.mount.minor),
        "cgroups": record.cgroup,
        "on_exit": if record.keep_dead { "keep" } else { "detach" },
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

/// A JSON object for people: a line per key.
pub(crate) fn lines(value: &Value) -> String {
    let lines = value.as_object().into_iter().flatten().map(|(key, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        [format!("{key}:"), value]
    });
    table(&lines.collect::<Vec<_>>())
}

pub fn logs(records: &Records, target: &Path, follow: bool) -> Result<(), Error> {
    let record = unmount::find(records, target)?;
    let path = records.log(&record.id);
    let mut seen = 0;
    loop {
        let log = match Log::read(&path) {
            // The mount ended, and its log with it.
            Err(_) if seen > 0 || follow => return Ok(()),
            log => log.map_err(|source| Error::Record { path: path.clone(), source })?,
        };
        let mut out = std::io::stdout().lock();
        if out.write_all(log.since(seen)).and_then(|()| out.flush()).is_err() || !follow {
            return Ok(());
        }
        seen = log.written;
        std::thread::sleep(Duration::from_millis(200));
    }
}

pub fn reconciled(report: &Report, json: bool) -> String {
    if json {
        return format!("{:#}\n", json!(report));
    }
    let line = |what: &str, ids: &[String]| if ids.is_empty() { String::new() } else { format!("{what}: {}\n", ids.join(" ")) };
    line("abandoned mounts undone", &report.abandoned) + &line("ended mounts cleaned up", &report.ended)
}

fn name(state: State) -> &'static str {
    match state {
        State::Serving => "serving",
        State::Dead => "dead",
        State::Detached => "detached",
    }
}

fn since(record: &Record) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(record.since)).to_string()
}

pub(crate) fn table<const COLUMNS: usize>(lines: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let padded: Vec<_> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A reader that went away is not our mistake.
pub(crate) fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
