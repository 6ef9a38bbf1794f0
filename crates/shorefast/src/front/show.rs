//! In: mounts and reports. Out: tables for a terminal, and JSON.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde_json::{Value, json};
use shorefast_engine::list::{InProgress, Listed};
use shorefast_engine::reconcile::Report;
use shorefast_engine::records::Records;
use shorefast_engine::state::{Standing, State};
use shorefast_engine::{Error, hang, list, past, text};

use crate::front::show_past;
use crate::front::table::{self, at, table};
use crate::report;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Live,
    /// Also those that are gone, or that failed, since that second.
    All {
        since: u64,
    },
}

pub fn list(records: &Records, which: Which, json: bool) -> Result<String, Error> {
    let mut listing = list::all(records)?;
    hang::mark(&mut listing.mounts);
    let gone = match which {
        Which::All { since } => past::all(records.directory()).since(since),
        Which::Live => past::Kept::default(),
    };
    for (path, why) in &gone.unreadable {
        report::say(&format!("shorefast: {} cannot be read: {why}", path.display()));
    }
    for (path, why) in &listing.unreadable {
        report::say(&format!("shorefast: {} is not a record: {why} (`shorefast reconcile` moves it away)", path.display()));
    }
    if json {
        let rows = listing.mounts.iter().map(row).chain(listing.in_progress.iter().map(row_in_progress));
        let rows: Vec<_> = rows.chain(gone.stories.iter().map(show_past::row)).collect();
        return Ok(format!("{:#}\n", Value::from(rows)));
    }
    let terminal = shorefast_sys::terminal::columns(std::io::stdout());
    // The most important first: a narrow terminal shows no more.
    let mut lines = vec![["TARGET", "SOURCE", "TYPE", "STATE", "SINCE", "CLIENT", "PID", "IMAGE"].map(str::to_owned)];
    lines.extend(listing.mounts.iter().map(|listed| {
        let record = &listed.record;
        [
            text::escape(listed.target().as_os_str().as_bytes()),
            text::escape(record.shown_source().as_bytes()),
            record.fstype.clone(),
            listed.standing.as_ref().map(in_words).unwrap_or_default(),
            table::ago(record.since),
            record.client.clone(),
            record.daemon().map_or_else(|| "-".to_owned(), |daemon| daemon.to_string()),
            record.digest.map_or_else(|| "-".to_owned(), |digest| digest.short()),
        ]
    }));
    lines.extend(listing.in_progress.iter().map(|InProgress { mount, pid, .. }| {
        let (target, pid) = (text::escape(mount.target.as_os_str().as_bytes()), pid.to_string());
        let source = mount.source.as_ref().map_or_else(|| "-".to_owned(), |source| text::escape(source.as_bytes()));
        [target, source, "-".to_owned(), MOUNTING.to_owned(), table::ago(mount.since), mount.client.clone(), pid, "-".to_owned()]
    }));
    let live = table::fitting(&lines, terminal);
    Ok(if gone.stories.is_empty() { live } else { format!("{live}\n{}", show_past::table(&gone.stories, terminal)) })
}

/// The state of an unfinished mount. Its pid is that of the launching process.
const MOUNTING: &str = "mounting";

fn row_in_progress(InProgress { id, mount, pid }: &InProgress) -> Value {
    json!({
        "id": id,
        "target": text::escape(mount.target.as_os_str().as_bytes()),
        "source": mount.source.as_ref().map(|source| text::escape(source.as_bytes())),
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
        "source": text::escape(record.shown_source().as_bytes()),
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
    let mut listed = match list::one(records, target) {
        Err(error @ Error::NotOurs { .. }) => {
            let value = show_past::inspect(records, target).ok_or(error)?;
            return Ok(if json { format!("{value:#}\n") } else { lines(&value) });
        }
        listed => listed?,
    };
    hang::mark(std::slice::from_mut(&mut listed));
    let (mut value, record) = (row(&listed), &listed.record);
    let more = json!({
        "mounted_source": text::escape(record.source.as_bytes()),
        "init": record.init.map(|process| process.pid),
        "keeper": record.keeper.map(|process| process.pid),
        "mount_id": record.mount.id,
        "device": format!("{}:{}", record.mount.major, record.mount.minor),
        "cgroups": record.cgroup,
        "limits": record.limits,
        "on_exit": record.on_exit().name(),
        "crashes": record.crashes.iter().map(show_past::crash).collect::<Vec<_>>(),
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

/// A JSON object for display: a line per key.
pub(crate) fn lines(value: &Value) -> String {
    let lines = value.as_object().into_iter().flatten().map(|(key, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        [format!("{key}:"), value]
    });
    table(&lines.collect::<Vec<_>>())
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
        line("dead mounts that have another mount on them", &report.dead),
        line("mounts whose lost record was restored", &report.adopted),
        line("unreadable records moved away", &aside),
        line("empty cgroups of lost mounts removed", &report.cgroups),
    ]
    .concat()
}

fn in_words(standing: &Standing) -> String {
    let state = match standing.state {
        State::Serving => "serving",
        State::Hung => "hung",
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
