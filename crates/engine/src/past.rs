//! In: a mount that is gone, or that never was complete. Out: its story, for who asks later: when, why, how long it lived, and what its client
//! said last.
//!
//! ```text
//! /run/shorefast/past/TIME-TARGET-ID.log   the mount's own log; behind it, in place of the record, its story (see sys::ring)
//! ```
//! The log is moved there: that takes no space, and of several processes that clean up only one can do it, so each story is told once. A name
//! has the time and a hash of the target: what is too old is found, and removed, without reading anything. No more than [`KEPT`] are there.

mod room;
mod names;

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shorefast_image::Digest;
use shorefast_sys::ring;

use crate::client_end::ClientEnd;
use crate::journal::{self, About, Event, Level};
pub use crate::past::names::DIRECTORY;
use crate::past::names::{NO_ID, name, of_id, of_target, places};
pub use crate::past::room::make_room;
use crate::process::Process;
use crate::record::{Crash, Record, now};
use crate::text;

/// Ending a mount ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// By whoever may.
    Unmounted,
    /// Its client ended by itself, with success.
    Ended,
    /// Its client died, and no other took over.
    Died,
    /// Another client has taken over.
    Replaced,
    /// It never was complete.
    Failed,
    /// The process was killed that was making it.
    Abandoned,
    /// The host went down with it.
    Restarted,
    /// The process was killed that was about to write it down.
    #[default]
    Unknown,
}

/// The story of a mount. A record can be read as one: that is what is left where the process was killed that was to write the rest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Past {
    /// `None`: it failed before it got one.
    #[serde(default)]
    pub id: Option<String>,
    #[serde(with = "text")]
    pub target: PathBuf,
    /// As given by the caller, without a password.
    #[serde(default, with = "text::optional")]
    pub source: Option<OsString>,
    #[serde(default)]
    pub fstype: Option<String>,
    pub client: String,
    pub image: String,
    #[serde(default)]
    pub digest: Option<Digest>,
    pub mode: String,
    /// In seconds since 1970.
    pub since: u64,
    #[serde(default)]
    pub until: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    #[serde(default)]
    pub how: Ending,
    #[serde(default)]
    pub end: Option<ClientEnd>,
    #[serde(default)]
    pub crashes: Vec<Crash>,
    /// Why it failed.
    #[serde(default)]
    pub why: Option<String>,
    /// Who made it: of a mount that failed, and until it is known why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maker: Option<Process>,
}

impl Past {
    pub fn of(record: &Record, how: Ending, end: Option<ClientEnd>) -> Self {
        Self {
            id: Some(record.id.clone()),
            target: record.target.clone(),
            source: Some(record.shown_source().to_owned()),
            fstype: Some(record.fstype.clone()),
            client: record.client.clone(),
            image: record.image.clone(),
            digest: record.digest,
            mode: record.mode.clone(),
            since: record.since,
            until: None,
            label: record.label.clone(),
            first: record.first.clone(),
            how,
            end,
            crashes: record.crashes.clone(),
            why: None,
            maker: None,
        }
    }

    /// In seconds.
    pub fn lived(&self) -> Option<u64> {
        self.until.map(|until| until.saturating_sub(self.since))
    }

    /// How long the crash took that it ended with.
    fn healed_after_ms(&self) -> Option<u64> {
        self.crashes.last().filter(|crash| crash.id.is_some() && crash.id == self.id)?.healed_after_ms
    }

    fn is(&self, id: &str) -> bool {
        self.id.as_deref() == Some(id)
    }

    /// Its sizes are others' to choose: what is kept of them is bounded.
    fn bounded(mut self) -> Self {
        const WHY: usize = 4000;
        const PROBLEM: usize = 500;
        let cut = |text: &mut String, longest: usize| {
            if let Some((end, _)) = text.char_indices().nth(longest) {
                text.truncate(end);
            }
        };
        self.why.iter_mut().for_each(|why| cut(why, WHY));
        self.crashes.iter_mut().filter_map(|crash| crash.problem.as_mut()).for_each(|problem| cut(problem, PROBLEM));
        self
    }

    fn tell(&self) {
        let (level, event) = match self.how {
            Ending::Unmounted | Ending::Restarted | Ending::Unknown if self.end.is_none() => (Level::Info, Event::Unmounted),
            Ending::Unmounted | Ending::Restarted | Ending::Unknown => (Level::Warning, Event::Unmounted),
            Ending::Ended => (Level::Notice, Event::Ended),
            // Told by who made the new one.
            Ending::Replaced => return,
            Ending::Died => (Level::Error, Event::Died),
            Ending::Failed | Ending::Abandoned => (Level::Error, Event::Failed),
        };
        journal::tell(level, event, About { id: self.id.as_deref(), target: &self.target, client: &self.client }, &self.reason());
    }

    /// The end in a sentence.
    pub fn reason(&self) -> Reason<'_> {
        Reason(self)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Reason<'a>(&'a Past);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Past { how, end, why, .. } = self.0;
        out.write_str(match how {
            Ending::Unmounted => "unmounted",
            Ending::Ended => "its client ended by itself",
            Ending::Died => "its client died",
            Ending::Replaced => match self.0.healed_after_ms() {
                Some(took) => return write!(out, "another client took over after {took} ms{}", OfClient(*end)),
                None => "another client took over",
            },
            Ending::Failed => "it could not be mounted",
            Ending::Abandoned => "the process that was mounting it was killed",
            Ending::Restarted => "the host went down",
            Ending::Unknown => "it is not known how it ended",
        })?;
        match (end, why) {
            (Some(end), _) if *how == Ending::Died => write!(out, ": {end}"),
            (Some(_), _) => write!(out, "{}", OfClient(*end)),
            (None, Some(why)) => write!(out, ": {why}"),
            (None, None) => Ok(()),
        }
    }
}

struct OfClient(Option<ClientEnd>);

impl fmt::Display for OfClient {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |end| write!(out, "; its client: {end}"))
    }
}

/// Moves the log of a mount to the past, and tells its story. Best effort: whatever goes wrong, the mount is gone.
pub fn keep(run_dir: &Path, past: Past) {
    let Some(id) = past.id.clone() else { return };
    let past = Past { until: past.until.or_else(|| Some(now())), ..past }.bounded();
    let log = run_dir.join(format!("{id}.log"));
    let Some(place) = claim(run_dir, &log, &name(&past.target, &id)) else { return };
    // Told even where there is no room to keep it; then it is read as the record that it was.
    let _ = write(&place, &past);
    // Who made it knows why it failed, and will say so.
    if past.maker.is_none() {
        past.tell();
    }
    room::keep_bounds(&run_dir.join(DIRECTORY));
}

/// A mount that this process was to make has failed. What its attempt has left is completed; where nothing was begun, there is only why.
pub fn failed(run_dir: &Path, past: Past, why: String) {
    let directory = run_dir.join(DIRECTORY);
    let maker = Process::own();
    let is_its = |kept: &Past| kept.how == Ending::Failed && kept.why.is_none() && kept.maker.is_some() && kept.maker == maker;
    let left = of_target(&directory, &past.target).into_iter().find_map(|place| read(&place).ok().filter(is_its).map(|kept| (kept, place)));
    let (past, place) = match left {
        Some((kept, place)) => (kept, Some(place)),
        None => {
            let past = Past { until: Some(now()), ..past };
            let place = create(run_dir, &name(&past.target, NO_ID)).ok();
            (past, place)
        }
    };
    let past = Past { how: Ending::Failed, why: Some(why), maker: None, ..past }.bounded();
    if let Some(place) = place {
        let _ = write(&place, &past);
    }
    past.tell();
    room::keep_bounds(&directory);
}

/// What is kept, and the files that cannot be read, and why.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Newest last.
    pub stories: Vec<Past>,
    pub unreadable: Vec<(PathBuf, String)>,
}

impl Kept {
    /// Those that ended at that second, since 1970, or later.
    pub fn since(mut self, second: u64) -> Self {
        self.stories.retain(|story| story.until.unwrap_or(story.since) >= second);
        self
    }
}

pub fn all(run_dir: &Path) -> Kept {
    let mut kept = Kept::default();
    for place in places(&run_dir.join(DIRECTORY)) {
        match read(&place) {
            Ok(past) => kept.stories.push(past),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => kept.unreadable.push((place, error.to_string())),
        }
    }
    kept
}

/// The newest story of a target, or of the mount with this id, and its log. Reads no others.
pub fn find(run_dir: &Path, wanted: &Path) -> Option<(Past, PathBuf)> {
    let directory = run_dir.join(DIRECTORY);
    let readable = |place: PathBuf| read(&place).ok().map(|past| (past, place));
    if let Some(id) = wanted.to_str().filter(|text| crate::record::ids_of(text).is_some()) {
        return of_id(&directory, id).into_iter().filter_map(readable).find(|(past, _)| past.is(id));
    }
    let target = std::path::absolute(wanted).ok()?;
    of_target(&directory, &target).into_iter().filter_map(readable).find(|(past, _)| past.target == target)
}

/// `None`: another process has it, or there is none.
fn claim(run_dir: &Path, log: &Path, name: &str) -> Option<PathBuf> {
    let place = run_dir.join(DIRECTORY).join(name);
    for _ in 0..TRIES {
        make_directory(run_dir).ok()?;
        match fs::rename(log, &place) {
            Ok(()) => return Some(place),
            // The directory was empty, and somebody has removed it.
            Err(error) if error.kind() == ErrorKind::NotFound && log.exists() => {}
            Err(_) => return None,
        }
    }
    None
}

fn create(run_dir: &Path, name: &str) -> io::Result<PathBuf> {
    make_directory(run_dir)?;
    let place = run_dir.join(DIRECTORY).join(name);
    fs::File::options().write(true).create_new(true).mode(0o600).open(&place)?;
    Ok(place)
}

const TRIES: u32 = 100;

fn make_directory(run_dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(run_dir.join(DIRECTORY))
}

fn write(place: &Path, past: &Past) -> io::Result<()> {
    let file = fs::File::options().write(true).open(place)?;
    ring::write_note(&file, &serde_json::to_vec(past)?)
}

/// It may be just being written.
fn read(place: &Path) -> io::Result<Past> {
    const AGAIN: [u64; 3] = [1, 5, 20];
    let once = || ring::read_note(place).and_then(|note| serde_json::from_slice(&note).map_err(io::Error::from));
    AGAIN.into_iter().fold(once(), |read, milliseconds| match read {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            std::thread::sleep(Duration::from_millis(milliseconds));
            once()
        }
        read => read,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_status::WaitStatus;
    use shorefast_sys::ring::Log;

    fn past(id: &str, target: &str) -> Past {
        serde_json::from_value(serde_json::json!({
            "id": id, "target": target, "client": "x", "image": "", "mode": "image", "since": 5, "how": "unmounted",
        }))
        .unwrap()
    }

    fn with_log(run_dir: &Path, id: &str, said: &[u8]) {
        let log = [&(said.len() as u64).to_ne_bytes()[..], said].concat();
        fs::write(run_dir.join(format!("{id}.log")), log).unwrap();
    }

    #[test]
    fn a_story_is_kept_once_with_what_the_client_said() {
        let run = tempfile::tempdir().unwrap();
        with_log(run.path(), "m0001-1", b"last words\n");
        keep(run.path(), past("m0001-1", "/mnt"));
        keep(run.path(), past("m0001-1", "/mnt"));
        let stories = all(run.path()).stories;
        assert_eq!(stories.len(), 1);
        let (found, log) = find(run.path(), Path::new("/mnt")).unwrap();
        assert_eq!((found.how, found.id.as_deref()), (Ending::Unmounted, Some("m0001-1")));
        assert!(found.until.is_some() && found.lived().is_some());
        assert_eq!(Log::read(&log).unwrap().kept, b"last words\n");
        assert!(find(run.path(), Path::new("m0001-1")).is_some());
        assert!(find(run.path(), Path::new("/other")).is_none() && find(run.path(), Path::new("m0001-2")).is_none());
    }

    #[test]
    fn the_newest_of_a_target_is_meant() {
        let run = tempfile::tempdir().unwrap();
        for id in ["m0001-1", "m0002-2", "m0003-3"] {
            with_log(run.path(), id, b"");
            keep(run.path(), past(id, if id == "m0003-3" { "/other" } else { "/mnt" }));
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(find(run.path(), Path::new("/mnt")).unwrap().0.is("m0002-2"));
    }

    #[test]
    fn a_damaged_story_spoils_only_itself() {
        let run = tempfile::tempdir().unwrap();
        for (id, target) in [("m0001-1", "/a"), ("m0002-2", "/b"), ("m0003-3", "/b")] {
            with_log(run.path(), id, b"");
            keep(run.path(), past(id, target));
            std::thread::sleep(Duration::from_millis(2));
        }
        let (_, place) = find(run.path(), Path::new("m0003-3")).unwrap();
        fs::write(&place, b"\0garbage").unwrap();
        fs::write(run.path().join(DIRECTORY).join("other"), "").unwrap();
        let kept = all(run.path());
        assert_eq!(kept.stories.iter().map(|past| past.id.as_deref().unwrap()).collect::<Vec<_>>(), ["m0001-1", "m0002-2"]);
        assert_eq!(kept.unreadable.iter().map(|(place, _)| place).collect::<Vec<_>>(), [&place]);
        assert!(find(run.path(), Path::new("/b")).unwrap().0.is("m0002-2"));
    }

    #[test]
    fn where_the_writer_was_killed_the_record_is_the_story() {
        let run = tempfile::tempdir().unwrap();
        with_log(run.path(), "m0001-1", b"said");
        let record = serde_json::json!({
            "id": "m0001-1", "target": "/mnt", "source": "host:/x", "fstype": "fuse.sshfs", "client": "sshfs", "image": "i", "mode": "image",
            "since": 7, "mount": {"id": 1, "unique": true, "major": 0, "minor": 1}, "namespace": 1, "init": null, "keeper": null,
            "host_processes": false, "cgroup": [], "keep_dead": true,
        });
        let log = fs::File::options().write(true).open(run.path().join("m0001-1.log")).unwrap();
        ring::write_note(&log, record.to_string().as_bytes()).unwrap();
        claim(run.path(), &run.path().join("m0001-1.log"), &name(Path::new("/mnt"), "m0001-1")).unwrap();
        let (found, _) = find(run.path(), Path::new("/mnt")).unwrap();
        assert_eq!((found.how, found.since, found.client.as_str()), (Ending::Unknown, 7, "sshfs"));
        assert_eq!(found.reason().to_string(), "it is not known how it ended");
    }

    #[test]
    fn who_failed_says_why_and_only_of_his_own() {
        let run = tempfile::tempdir().unwrap();
        with_log(run.path(), "m0001-1", b"no such host");
        keep(run.path(), Past { how: Ending::Failed, maker: Process::own(), ..past("m0001-1", "/mnt") });
        with_log(run.path(), "m0002-2", b"");
        keep(
            run.path(),
            Past { how: Ending::Failed, maker: Some(Process { pid: 1, started: 0, unique: None }), ..past("m0002-2", "/mnt") },
        );
        failed(run.path(), past("unused", "/mnt"), "the helper failed".to_owned());
        let (found, log) = find(run.path(), Path::new("m0001-1")).unwrap();
        assert_eq!(found.reason().to_string(), "it could not be mounted: the helper failed");
        assert_eq!((Log::read(&log).unwrap().kept.as_slice(), found.maker), (&b"no such host"[..], None));
        assert_eq!(find(run.path(), Path::new("m0002-2")).unwrap().0.why, None);
        // Nothing was begun.
        failed(run.path(), Past { id: None, ..past("", "/early") }, "no image".to_owned());
        let (found, log) = find(run.path(), Path::new("/early")).unwrap();
        assert_eq!((found.why.as_deref(), found.id), (Some("no image"), None));
        assert_eq!(Log::read(&log).unwrap().kept, b"");
    }

    #[test]
    fn a_crash_that_was_healed_says_how_long_that_took() {
        let end = ClientEnd { status: Some(WaitStatus(9)), out_of_memory: None };
        let crash =
            Crash { at: 1, end, healed_after_ms: Some(12), problem: None, id: Some("m0001-1".to_owned()), said: vec!["ill".to_owned()] };
        let replaced = Past { how: Ending::Replaced, end: Some(end), crashes: vec![crash.clone()], ..past("m0001-1", "/mnt") };
        assert_eq!(replaced.reason().to_string(), "another client took over after 12 ms; its client: killed by signal 9");
        // An upgrade, of one that had been healed before.
        let upgraded = Past { id: Some("m0001-2".to_owned()), end: None, ..replaced };
        assert_eq!(upgraded.reason().to_string(), "another client took over");
    }

    #[test]
    fn what_others_wrote_is_bounded() {
        let run = tempfile::tempdir().unwrap();
        let crash = Crash {
            at: 1,
            end: ClientEnd { status: Some(WaitStatus(9)), out_of_memory: None },
            healed_after_ms: None,
            problem: Some("ä".repeat(100_000)),
            id: None,
            said: Vec::new(),
        };
        with_log(run.path(), "m0001-1", b"");
        keep(run.path(), Past { crashes: vec![crash; 20], why: Some("ä".repeat(100_000)), ..past("m0001-1", "/mnt") });
        let (_, place) = find(run.path(), Path::new("/mnt")).unwrap();
        assert!(ring::read_note(&place).unwrap().len() < 32 * 1024);
    }

    #[test]
    fn without_a_directory_nothing_happens() {
        keep(Path::new("/proc/nosuch"), past("m0001-1", "/mnt"));
        failed(Path::new("/proc/nosuch"), past("m0001-1", "/mnt"), "why".to_owned());
        assert!(all(Path::new("/proc/nosuch")).stories.is_empty());
    }
}
