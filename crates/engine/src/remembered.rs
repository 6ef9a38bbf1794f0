//! In: a plan. Out: files of the host that a client gets as copies, and what the client adds to some of them, kept for its next mounts: so
//! a client that trusts a server's key at first sight (ssh's `accept-new`) knows it the next time.
//!
//! ```text
//! /var/lib/shorefast/remembered/CLIENT/root/.ssh/known_hosts     lines that clients of this name have added, in this file
//! ```
//! The client writes to a copy in its sandbox. When its mount is complete, whole lines that are new there are appended here; nothing that a
//! client does removes or changes a line. The host's own file is never written.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use shorefast_sandbox::spec::{Content, File};
use shorefast_sys as sys;
use sys::bounded_call::{self, Bounded};

use crate::error::Error;
use crate::plan::{ClientPlan, HostFile};

/// For each file, and for what a client can add to one altogether.
const LIMIT: usize = 1 << 20;
/// What one mount can add.
const LINES: usize = 64;
const LINE_BYTES: usize = 16 << 10;

/// What the client gets.
#[derive(Debug)]
pub struct Remembered {
    directory: PathBuf,
    given: Vec<Given>,
}

#[derive(Debug)]
struct Given {
    inside: PathBuf,
    text: String,
    is_kept: bool,
}

/// `root`: where this installation keeps what outlives a boot.
pub fn read(plan: &ClientPlan, root: &Path, deadline: Instant) -> Result<Remembered, Error> {
    // A client file can have any name; what is remembered is below this directory.
    let name = plan.client.replace('/', "_").replace("..", "_");
    let directory = root.join("remembered").join(name);
    let mut given = Vec::new();
    for HostFile { inside, host, is_kept } in &plan.host_files {
        let mut text = host.as_ref().map(|path| read_host(path, deadline)).transpose()?.flatten();
        if *is_kept && let Some(more) = read_host(&place(&directory, inside), deadline)? {
            text = Some(with_newline(text.unwrap_or_default()) + &more);
        }
        // One that is kept exists in any case: its directory is not the client's to write to.
        let text = text.or_else(|| is_kept.then(String::new));
        given.extend(text.map(|text| Given { inside: inside.clone(), text, is_kept: *is_kept }));
    }
    Ok(Remembered { directory, given })
}

fn place(directory: &Path, inside: &Path) -> PathBuf {
    directory.join(inside.strip_prefix("/").unwrap_or(inside))
}

fn with_newline(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// `None`: there is no such file. It may be on a filesystem that does not answer.
fn read_host(path: &Path, deadline: Instant) -> Result<Option<String>, Error> {
    let fail = |source| Error::HostFile { path: path.to_owned(), source };
    match bounded_call::read(path, LIMIT, deadline) {
        Bounded::Done(bytes) if bytes.len() > LIMIT => Err(fail(Errno::FBIG.into())),
        Bounded::Done(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Bounded::Failed(error) if matches!(error.errno(), Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Bounded::Failed(error) => Err(fail(error.errno().into())),
        Bounded::TimedOut => Err(fail(Errno::TIMEDOUT.into())),
    }
}

impl Remembered {
    pub fn files(&self) -> impl Iterator<Item = File> {
        self.given.iter().map(|given| File { inside: given.inside.clone(), content: Content::Text(given.text.clone()) })
    }

    /// Keeps what the client added. `init`: the sandbox's first process.
    pub fn keep(&self, init: i32) -> Result<(), Error> {
        for given in self.given.iter().filter(|given| given.is_kept) {
            let now = read_inside(init, &given.inside).unwrap_or_default();
            let added = added(&given.text, &now);
            if !added.is_empty() {
                let path = place(&self.directory, &given.inside);
                append(&path, &added).map_err(|source| Error::HostFile { path, source })?;
            }
        }
        Ok(())
    }
}

/// The sandbox is hostile: no link is followed, no other mount entered, and what is no plain file is not waited for.
fn read_inside(init: i32, path: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let root = rustix::fs::open(format!("/proc/{init}/root"), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let file = rustix::fs::openat2(&root, path, flags | OFlags::NONBLOCK | OFlags::NOFOLLOW, Mode::empty(), resolve).ok()?;
    let file = fs::File::from(file);
    let mut bytes = Vec::new();
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    file.take(2 * LIMIT as u64).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whole lines of plain text that were not there before.
fn added<'a>(before: &str, now: &'a str) -> Vec<&'a str> {
    let before: std::collections::HashSet<_> = before.lines().collect();
    let is_line = |line: &&str| !line.is_empty() && line.len() <= LINE_BYTES && !line.contains(|letter: char| letter.is_control());
    now.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
        .filter(is_line)
        .filter(|line| !before.contains(line))
        .take(LINES)
        .collect()
}

fn append(path: &Path, lines: &[&str]) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    let mut file = fs::File::options().create(true).read(true).append(true).mode(0o600).open(path)?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    let mut known = String::new();
    file.read_to_string(&mut known)?;
    // Another mount may have met the same server meanwhile.
    let new: String = lines.iter().filter(|line| known.lines().all(|old| old != **line)).map(|line| format!("{line}\n")).collect();
    if known.len() + new.len() > LIMIT {
        return Err(Errno::FBIG.into());
    }
    file.write_all(new.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_new_lines_are_added() {
        assert_eq!(added("a\nb\n", "a\nc\n"), ["c"], "what is gone is not forgotten");
        assert_eq!(added("a\n", "a\nhalf"), [""; 0]);
        assert_eq!(added("", "a\u{1b}[2J\n\nok\n"), ["ok"]);
        let many: String = (0..1000).map(|n| format!("{n}\n")).collect();
        assert_eq!(added("", &many).len(), LINES);
    }

    #[test]
    fn what_is_kept_is_kept_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = place(directory.path(), Path::new("/root/.ssh/known_hosts"));
        append(&path, &["a", "b"]).unwrap();
        append(&path, &["b", "c"]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb\nc\n");
        let big = "x".repeat(LIMIT);
        assert!(append(&path, &[&big]).is_err(), "it does not fill the disk");
    }
}
