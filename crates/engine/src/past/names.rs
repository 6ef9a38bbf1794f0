//! Names of stories: when, of which target, of which mount. So what is sought or too old is found without reading anything.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shorefast_image::Digest;

/// In the run directory.
pub const DIRECTORY: &str = "past";

/// In place of an id.
pub(crate) const NO_ID: &str = "none";

pub(crate) fn name(target: &Path, id: &str) -> String {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    format!("{time:016x}-{}-{id}.log", key(target))
}

fn key(target: &Path) -> String {
    Digest::of(target.as_os_str().as_bytes()).hex()[..8].to_owned()
}

/// When, since 1970, and of which target. `None`: it is no story.
pub(crate) fn parse(place: &Path) -> Option<(Duration, &str)> {
    let (time, rest) = place.file_name()?.to_str()?.strip_suffix(".log")?.split_once('-')?;
    let (target, _) = rest.split_once('-')?;
    (time.len() == 16).then_some(())?;
    Some((Duration::from_micros(u64::from_str_radix(time, 16).ok()?), target))
}

/// Oldest first.
pub(crate) fn places(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut places: Vec<_> = entries.filter(|place| parse(place).is_some()).collect();
    places.sort_unstable();
    places
}

/// Newest first. Other targets may have the same hash.
pub(crate) fn of_target(directory: &Path, target: &Path) -> Vec<PathBuf> {
    let wanted = key(target);
    places(directory).into_iter().rev().filter(|place| parse(place).is_some_and(|(_, key)| key == wanted)).collect()
}

/// Newest first.
pub(crate) fn of_id(directory: &Path, id: &str) -> Vec<PathBuf> {
    let end = format!("-{id}.log");
    let is_its = |place: &PathBuf| place.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(&end));
    places(directory).into_iter().rev().filter(is_its).collect()
}
