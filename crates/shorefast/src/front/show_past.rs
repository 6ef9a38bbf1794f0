//! In: the history of mounts that ended or failed. Out: a table, and JSON with the keys of live mounts.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde_json::{Value, json};
use shorefast_engine::past::{self, Ending, Past};
use shorefast_engine::record::Crash;
use shorefast_engine::records::Records;
use shorefast_engine::text;
use shorefast_engine::wait_status::WaitStatus;

use crate::front::table::{self, at};

/// Oldest first: the most interesting ones are at the end.
pub fn table(stories: &[Past], terminal: Option<usize>) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let mut lines = vec![["WAS AT", "STATE", "ENDED", "LIVED", "CLIENT", "ID", "WHY"].map(str::to_owned)];
    lines.extend(stories.iter().map(|story| {
        [
            text::escape(story.target.as_os_str().as_bytes()),
            name_of(story.how).to_owned(),
            or_dash(story.until.map(table::ago)),
            or_dash(story.lived().map(table::length)),
            story.client.clone(),
            or_dash(story.id.clone()),
            // The rest is for `inspect` and `logs`.
            shortened(&story.reason().to_string()),
        ]
    }));
    table::fitting(&lines, terminal)
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 120;
    let first = text.lines().next().unwrap_or_default();
    if first.chars().count() <= LONGEST { first.to_owned() } else { first.chars().take(LONGEST - 1).chain(['…']).collect() }
}

/// In the place of a live mount's state.
fn name_of(how: Ending) -> &'static str {
    match how {
        Ending::Unmounted => "unmounted",
        Ending::Ended => "ended",
        Ending::Died => "died",
        Ending::Replaced => "replaced",
        Ending::Failed => "not-mounted",
        Ending::Abandoned => "abandoned",
        Ending::Restarted => "restarted",
        Ending::Unknown => "unknown",
    }
}

/// The row of `list --all --json`.
pub fn row(story: &Past) -> Value {
    json!({
        "id": story.id,
        "target": text::escape(story.target.as_os_str().as_bytes()),
        "source": story.source.as_ref().map(|source| text::escape(source.as_bytes())),
        "fstype": story.fstype,
        "client": story.client,
        "image": story.image,
        "digest": story.digest,
        "mode": story.mode,
        "pid": null,
        "state": name_of(story.how),
        "covered": false,
        "namespace": null,
        "since": at(story.since),
        "until": story.until.map(at),
        "lived_seconds": story.lived(),
        "why": story.reason().to_string(),
        "client_ended": story.end.map(|end| json!({
            "code": end.status.and_then(WaitStatus::code),
            "signal": end.status.and_then(WaitStatus::signal),
            "out_of_memory": end.out_of_memory.is_some(),
            "limit_bytes": end.out_of_memory.and_then(|out_of_memory| out_of_memory.limit_bytes),
        })),
        "crashes": story.crashes.iter().map(crash).collect::<Vec<_>>(),
    })
}

/// The last mount there, or the one with this id.
pub fn inspect(records: &Records, target: &Path) -> Option<Value> {
    let (story, log) = past::find(records.directory(), target)?;
    let mut value = row(&story);
    value["log"] = text::escape(log.as_os_str().as_bytes()).into();
    Some(value)
}

pub fn crash(crash: &Crash) -> Value {
    json!({
        "at": at(crash.at),
        "client": crash.end.to_string(),
        "healed_after_ms": crash.healed_after_ms,
        "problem": crash.problem,
        "id": crash.id,
        "said": crash.said.iter().map(|line| text::printable(line)).collect::<Vec<_>>(),
    })
}
