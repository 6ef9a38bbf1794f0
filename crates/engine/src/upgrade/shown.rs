//! What a mount shows at its root, and whether another one shows the same. In: two mounts. Out: what is different. Each question is bounded:
//! a client that does not answer is not waited for.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::fs::FileType;
use shorefast_sys as sys;
use sys::bounded_call::{self, Bounded};

/// For each question.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// `None`: it does not say.
    bytes: Option<u64>,
    /// `None`: they cannot be listed, or are too many.
    entries: Option<BTreeMap<Vec<u8>, Kind>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    RegularFile,
    Other,
}

/// It does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silent;

impl Shown {
    pub(crate) fn by(mount: BorrowedFd<'_>) -> Result<Self, Silent> {
        let root = bounded_call::look_at(mount).map_err(|_| Silent)?;
        if !sys::deadline::is_readable(root.pidfd(), Instant::now() + PATIENCE).unwrap_or(false) {
            return Err(Silent);
        }
        let bytes = match bounded_call::size_of(mount, Instant::now() + PATIENCE) {
            Bounded::Done(bytes) => Some(bytes),
            Bounded::Failed(_) => None,
            Bounded::TimedOut => return Err(Silent),
        };
        Ok(Self { bytes, entries: entries(mount) })
    }
}

fn entries(mount: BorrowedFd<'_>) -> Option<BTreeMap<Vec<u8>, Kind>> {
    let Bounded::Done(listed) = bounded_call::list(mount, Instant::now() + PATIENCE) else { return None };
    let kind = |kind| if kind == FileType::RegularFile { Kind::RegularFile } else { Kind::Other };
    Some(listed.into_iter().map(|entry| (entry.name, kind(entry.kind))).collect())
}

/// How often it is looked once more: others may be changing what is there.
const TRIES: u32 = 3;

/// `None`: as far as can be told, `new` shows the same. `old`: what was shown, and the old mount, if it still answers.
pub(crate) fn difference(shown: &Shown, old: Option<BorrowedFd<'_>>, new: BorrowedFd<'_>) -> Option<String> {
    let mut before = shown.clone();
    let mut different = None;
    for _ in 0..TRIES {
        let Ok(now) = Shown::by(new) else { return Some("it does not answer".to_owned()) };
        different = compare(&before, &now);
        if different.is_none() {
            return unreadable(&before, &now, old, new);
        }
        if let Some(again) = old.and_then(|old| Shown::by(old).ok()) {
            before = again;
        }
    }
    different
}

fn compare(old: &Shown, new: &Shown) -> Option<String> {
    match (old.bytes, new.bytes) {
        (Some(_), None) => return Some("it does not say how large it is".to_owned()),
        // What a filesystem says of itself may change a little while it is used.
        (Some(old), Some(new)) if old > new.saturating_mul(2) || new > old.saturating_mul(2) => {
            return Some(format!("it has {new} bytes, and the old one {old}"));
        }
        _ => {}
    }
    match (&old.entries, &new.entries) {
        (Some(_), None) => Some("its root directory cannot be listed".to_owned()),
        (Some(old), Some(new)) if !old.is_empty() && !old.keys().any(|name| new.contains_key(name)) => {
            Some(format!("of the {} entries of the root directory it has none", old.len()))
        }
        _ => None,
    }
}

/// How many files are read.
const TASTED: usize = 3;

/// A file that the old client can read, and the new one cannot.
fn unreadable(before: &Shown, now: &Shown, old: Option<BorrowedFd<'_>>, new: BorrowedFd<'_>) -> Option<String> {
    let (before, now, old) = (before.entries.as_ref()?, now.entries.as_ref()?, old?);
    let files = now.iter().filter(|(name, kind)| **kind == Kind::RegularFile && before.contains_key(*name));
    for (name, _) in files.take(TASTED) {
        let Ok(name) = CString::new(name.clone()) else { continue };
        let taste = |mount| bounded_call::taste(mount, &name, Instant::now() + PATIENCE).or_timed_out(|| format!("read({name:?})"));
        if let Err(error) = taste(new)
            && taste(old).is_ok()
        {
            return Some(error.to_string());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    fn shown(bytes: Option<u64>, names: Option<&[&str]>) -> Shown {
        Shown { bytes, entries: names.map(|names| names.iter().map(|name| (name.as_bytes().to_vec(), Kind::RegularFile)).collect()) }
    }

    #[test]
    fn another_filesystem_is_told_from_one_that_is_in_use() {
        let rows = [
            ("the same", shown(Some(100), Some(&["a", "b"])), shown(Some(100), Some(&["a", "b"])), true),
            ("it grew", shown(Some(100), Some(&["a"])), shown(Some(150), Some(&["a", "c"])), true),
            ("another size", shown(Some(100), Some(&["a"])), shown(Some(201), Some(&["a"])), false),
            ("no size any more", shown(Some(100), Some(&["a"])), shown(Some(0), Some(&["a"])), false),
            ("never a size", shown(Some(0), Some(&["a"])), shown(Some(0), Some(&["a"])), true),
            ("no statfs", shown(Some(100), Some(&["a"])), shown(None, Some(&["a"])), false),
            ("never statfs", shown(None, Some(&["a"])), shown(None, Some(&["a"])), true),
            ("it is empty", shown(Some(100), Some(&["a"])), shown(Some(100), Some(&[])), false),
            ("it was empty", shown(Some(100), Some(&[])), shown(Some(100), Some(&["a"])), true),
            ("all others", shown(Some(100), Some(&["a", "b"])), shown(Some(100), Some(&["c"])), false),
            ("not listed", shown(Some(100), Some(&["a"])), shown(Some(100), None), false),
            ("never listed", shown(Some(100), None), shown(Some(100), None), true),
        ];
        for (name, old, new, is_same) in rows {
            assert_eq!(compare(&old, &new).is_none(), is_same, "{name}: {:?}", compare(&old, &new));
        }
    }

    #[test]
    fn a_directory_shows_what_it_shows() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(one.path().join("file"), "hello").unwrap();
        let open = |directory: &tempfile::TempDir| std::fs::File::open(directory.path()).unwrap();
        let (one, other) = (open(&one), open(&other));
        let before = Shown::by(one.as_fd()).unwrap();
        assert_eq!(difference(&before, Some(one.as_fd()), one.as_fd()), None);
        let different = difference(&before, Some(one.as_fd()), other.as_fd());
        assert!(different.as_ref().is_some_and(|what| what.contains("it has none")), "{different:?}");
    }
}
