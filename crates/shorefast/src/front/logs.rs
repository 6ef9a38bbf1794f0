//! In: a mount, live or gone. Out: what its client has said.

use std::borrow::Cow;
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shorefast_engine::record::Record;
use shorefast_engine::records::Records;
use shorefast_engine::{Error, find, past, text};
use shorefast_sys::ring::{self, Log};

use crate::front::{candidates, table};
use crate::report;

#[derive(Debug, clap::Args)]
pub struct LogsArguments {
    /// Continue until the mount ends, and through every client that takes over
    #[arg(short, long)]
    follow: bool,
    /// Begin with the last N lines
    #[arg(short = 'n', long, value_name = "N")]
    tail: Option<usize>,
    /// Only lines printed since this time (2026-11-18T20:00:00Z, UTC), or within this duration (90s, 10m, 2h 30m, 1day)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<u64>,
    /// Where it is or was mounted, or its id
    #[arg(add = candidates::targets())]
    target: PathBuf,
}

/// In seconds since 1970.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let ago = |ago: Duration| SystemTime::now().checked_sub(ago).unwrap_or(UNIX_EPOCH);
    let time = humantime::parse_duration(text).map(ago).or_else(|_| humantime::parse_rfc3339_weak(text));
    let time = time.map_err(|_| "neither a time such as 2026-11-18T20:00:00Z, nor as long ago as 10m or 2h".to_owned())?;
    Ok(time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// A log that is open, whatever becomes of its name.
struct Source {
    log: File,
    /// The mount and what takes its place; `None`: it is gone.
    live: Option<Live>,
}

struct Live {
    path: PathBuf,
    id: String,
    lineage: String,
}

/// How often a log is read: its writer sends no notification.
const AGAIN: Duration = Duration::from_millis(200);

pub fn run(records: &Records, arguments: &LogsArguments) -> Result<(), Error> {
    let is_terminal = std::io::stdout().is_terminal();
    let say = |bytes: &[u8]| {
        let mut out = std::io::stdout().lock();
        out.write_all(&for_reader(bytes, is_terminal)).and_then(|()| out.flush()).is_ok()
    };
    let mut source = open(records, &arguments.target)?;
    let mut from = arguments.since.map_or(0, |second| ring::written_before(&source.log, second).unwrap_or(0));
    let mut tail = arguments.tail;
    loop {
        // Looked at before the log is read: what was said until then is in it.
        let is_over = source.live.as_ref().is_none_or(|live| !live.path.exists());
        let log = Log::read_from(&source.log).map_err(|error| Error::Record { path: arguments.target.clone(), source: error })?;
        // Nothing was said since then, or so far.
        from = from.min(log.written);
        let new = log.since(from);
        let new = tail.take().map_or(new, |lines| last_lines(new, lines));
        if !say(new) || !arguments.follow {
            return Ok(());
        }
        from = log.written;
        if is_over {
            let Some(next) = source.live.as_ref().and_then(|live| successor(records, live)) else { return Ok(()) };
            (source, from) = (next, 0);
        } else {
            std::thread::sleep(AGAIN);
        }
    }
}

fn open(records: &Records, target: &Path) -> Result<Source, Error> {
    match find::find(records, target) {
        Ok(record) => {
            tell_of_crash(&record);
            let live = Live { path: records.log(&record.id), lineage: record.lineage().to_owned(), id: record.id };
            let log = File::open(&live.path).map_err(|source| Error::Record { path: live.path.clone(), source })?;
            Ok(Source { log, live: Some(live) })
        }
        Err(Error::NotOurs { path }) => {
            let place = past::find(records.directory(), target).map(|(_, place)| place).ok_or(Error::NotOurs { path })?;
            let log = File::open(&place).map_err(|source| Error::Record { path: place, source })?;
            Ok(Source { log, live: None })
        }
        Err(error) => Err(error),
    }
}

/// What its earlier clients said is in logs of their own. Not among the lines of this one, which a program may read.
fn tell_of_crash(record: &Record) {
    let Some(crash) = record.crashes.last() else { return };
    let what = crash.healed_after_ms.map_or_else(String::new, |took| format!(", and another one took over after {took} ms"));
    report::say(&format!(
        "shorefast: a client of it died {} ({}){what}; `shorefast inspect` has its last lines",
        table::ago(crash.at),
        crash.end
    ));
}

/// The client that has taken over.
fn successor(records: &Records, of: &Live) -> Option<Source> {
    let record = records.all().ok()?.into_iter().find(|record| record.lineage() == of.lineage && record.id != of.id)?;
    open(records, Path::new(&record.id)).ok()
}

/// The last line may be unfinished.
fn last_lines(text: &[u8], lines: usize) -> &[u8] {
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let Some(last) = lines.checked_sub(1) else { return b"" };
    let breaks = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    breaks.map(|(at, _)| at).nth(last).map_or(text, |at| &text[at + 1..])
}

/// A program gets the client's output byte for byte; on a terminal, control characters are filtered.
fn for_reader(log: &[u8], is_terminal: bool) -> Cow<'_, [u8]> {
    if !is_terminal {
        return Cow::Borrowed(log);
    }
    Cow::Owned(text::printable(&String::from_utf8_lossy(log)).into_owned().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_counted_from_the_end() {
        let rows = [
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc", 2, "b\nc"),
            ("a\nb\nc\n", 0, ""),
            ("a\nb\nc\n", 9, "a\nb\nc\n"),
            ("a\n\n", 1, "\n"),
            ("", 3, ""),
        ];
        for (text, lines, expected) in rows {
            assert_eq!(last_lines(text.as_bytes(), lines), expected.as_bytes(), "{text:?} {lines}");
        }
    }

    #[test]
    fn a_time_is_a_moment_or_so_long_ago() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(parse_time("2h 30m").unwrap().abs_diff(now - 9000) <= 1);
        assert_eq!(parse_time("1970-01-01T00:10:00Z"), Ok(600));
        assert_eq!(parse_time("1970-01-02 00:00:00"), Ok(86400));
        assert!(parse_time("yesterday").is_err() && parse_time("").is_err() && parse_time("10").is_err());
    }
}
