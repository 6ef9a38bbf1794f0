//! Decides what to do about one path. Pure: compares the desired state, the present state, and the recorded state.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::host::{Found, digest};
use crate::manifest::Recorded;
use crate::wish::{Content, Item};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Make,
    Replace,
    /// It is in the desired state.
    Leave,
}

pub fn install(item: &Item, found: &Found, recorded: Option<&Recorded>) -> Result<Step, Error> {
    let same = match (&item.content, found) {
        (Content::Leavings, _) => return Ok(Step::Leave),
        (_, Found::Nothing) => return Ok(Step::Make),
        (Content::Directory, Found::Directory) => true,
        (Content::File { bytes, .. }, Found::File { sha256 }) => *sha256 == digest(bytes),
        (Content::Link { to }, Found::Link { to: found }) => to == found,
        _ => false,
    };
    if same {
        return Ok(Step::Leave);
    }
    match recorded {
        Some(recorded) if is_ours(found, recorded) => Ok(Step::Replace),
        Some(_) => Err(Error::Changed { path: item.path.clone() }),
        None => Err(Error::Foreign { path: item.path.clone() }),
    }
}

/// Whether the file is the one that we installed.
pub fn is_ours(found: &Found, recorded: &Recorded) -> bool {
    match (found, recorded) {
        (Found::Directory, Recorded::Directory) | (Found::File { .. }, Recorded::Leavings) => true,
        (Found::File { sha256 }, Recorded::File { sha256: ours }) => ours.contains(sha256),
        (Found::Link { to }, Recorded::Link { to: ours }) => ours.contains(to),
        _ => false,
    }
}

/// What to record about an item that we create, replace, or created earlier. None: it existed before, and is not ours.
pub fn record(item: &Item, step: Step, earlier: Option<&Recorded>) -> Option<Recorded> {
    match (step, &item.content) {
        (_, Content::Leavings) => Some(Recorded::Leavings),
        (Step::Leave, _) => earlier.cloned(),
        (_, Content::Directory) => Some(Recorded::Directory),
        (_, Content::File { bytes, .. }) => {
            let earlier = if let Some(Recorded::File { sha256 }) = earlier { sha256.as_slice() } else { &[] };
            Some(Recorded::File { sha256: joined(digest(bytes), earlier) })
        }
        (_, Content::Link { to }) => {
            let earlier = if let Some(Recorded::Link { to }) = earlier { to.as_slice() } else { &[] };
            Some(Recorded::Link { to: joined(to.clone(), earlier) })
        }
    }
}

/// After the installation, only the newest digest counts.
pub fn settled(recorded: Recorded) -> Recorded {
    match recorded {
        Recorded::File { mut sha256 } => {
            sha256.truncate(1);
            Recorded::File { sha256 }
        }
        Recorded::Link { mut to } => {
            to.truncate(1);
            Recorded::Link { to }
        }
        other => other,
    }
}

/// A line for display.
pub fn describe(item: &Item, step: Step) -> String {
    let path = item.path.display();
    match (step, &item.content) {
        (Step::Leave, _) => format!("keep     {path}"),
        (Step::Make, Content::Link { to }) => format!("link     {path} -> {}", to.display()),
        (Step::Replace, Content::Link { to }) => format!("relink   {path} -> {}", to.display()),
        (Step::Make, Content::Directory) => format!("mkdir    {path}"),
        (Step::Make, _) => format!("write    {path}"),
        (Step::Replace, _) => format!("replace  {path}"),
    }
}

pub fn describe_removal(path: &Path) -> String {
    format!("remove   {}", path.display())
}

fn joined<T: Clone + PartialEq>(newest: T, earlier: &[T]) -> Vec<T> {
    let others = earlier.iter().filter(|other| **other != newest).cloned().collect::<Vec<_>>();
    [vec![newest], others].concat()
}

/// Deepest first, so that a directory is empty when its turn comes.
pub fn removal_order<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Vec<&'a PathBuf> {
    let mut paths: Vec<_> = paths.collect();
    paths.sort_by(|a, b| b.cmp(a));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_and_unchanged_is_replaced() {
        let item = |content| Item { path: "/x".into(), content };
        let file = || item(Content::File { bytes: b"new".to_vec(), mode: 0o644 });
        let link = || item(Content::Link { to: "/new".into() });
        let found_file = |text: &str| Found::File { sha256: digest(text.as_bytes()) };
        let found_link = |to: &str| Found::Link { to: to.into() };
        let our_file = Recorded::File { sha256: vec![digest(b"newest"), digest(b"old")] };
        let our_link = Recorded::Link { to: vec!["/old".into()] };
        let directory = || item(Content::Directory);
        type Row<'a> = (Item, Found, Option<&'a Recorded>, Result<Step, &'a str>);
        let rows: Vec<Row<'_>> = vec![
            (file(), Found::Nothing, None, Ok(Step::Make)),
            (file(), Found::Nothing, Some(&our_file), Ok(Step::Make)),
            (file(), found_file("new"), None, Ok(Step::Leave)),
            (file(), found_file("old"), Some(&our_file), Ok(Step::Replace)),
            (file(), found_file("old"), None, Err("not installed by Shorefast")),
            (file(), found_file("edited"), Some(&our_file), Err("changed")),
            (file(), found_link("/new"), Some(&our_file), Err("changed")),
            (file(), Found::Directory, None, Err("not installed by Shorefast")),
            (file(), Found::Other, None, Err("not installed by Shorefast")),
            (link(), Found::Nothing, None, Ok(Step::Make)),
            (link(), found_link("/new"), None, Ok(Step::Leave)),
            (link(), found_link("/old"), Some(&our_link), Ok(Step::Replace)),
            (link(), found_link("/other"), Some(&our_link), Err("changed")),
            (link(), found_link("/other"), None, Err("not installed by Shorefast")),
            (directory(), Found::Nothing, None, Ok(Step::Make)),
            (directory(), Found::Directory, None, Ok(Step::Leave)),
            (directory(), found_file("x"), None, Err("not installed by Shorefast")),
        ];
        for (item, found, recorded, expected) in rows {
            let decided = install(&item, &found, recorded);
            match (&decided, expected) {
                (Ok(step), Ok(expected)) => assert_eq!(*step, expected, "{item:?} {found:?}"),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error} for {item:?} {found:?}"),
                _ => panic!("{decided:?} for {item:?} {found:?}"),
            }
        }
    }

    #[test]
    fn what_was_there_before_us_is_never_recorded() {
        let directory = Item { path: "/opt".into(), content: Content::Directory };
        assert_eq!(record(&directory, Step::Leave, None), None);
        assert_eq!(record(&directory, Step::Make, None), Some(Recorded::Directory));
        assert_eq!(record(&directory, Step::Leave, Some(&Recorded::Directory)), Some(Recorded::Directory));
    }

    #[test]
    fn while_a_file_is_replaced_both_versions_are_ours() {
        let item = Item { path: "/x".into(), content: Content::File { bytes: b"new".to_vec(), mode: 0o644 } };
        let earlier = Recorded::File { sha256: vec![digest(b"old")] };
        let during = record(&item, Step::Replace, Some(&earlier)).unwrap();
        for text in ["old", "new"] {
            assert!(is_ours(&Found::File { sha256: digest(text.as_bytes()) }, &during));
        }
        assert_eq!(settled(during), Recorded::File { sha256: vec![digest(b"new")] });
    }
}
