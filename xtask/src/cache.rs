//! The directory of things that are slow to make: client images, guest kernels, the S3 server. It lies outside the
//! checkout, so that a fresh clone on the same machine starts at once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(crate) fn directory() -> Result<PathBuf> {
    let directory = match std::env::var_os("SHOREFAST_CACHE") {
        Some(directory) => PathBuf::from(directory),
        None => std::env::home_dir().context("neither SHOREFAST_CACHE nor HOME is set")?.join(".cache/shorefast"),
    };
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    Ok(directory)
}

/// Held while the cache is being changed: two chores at once would build the same things twice.
pub(crate) fn lock(cache: &Path) -> Result<File> {
    let path = cache.join("lock");
    let lock = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    lock.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(lock)
}

/// Builds the directory or file `place`, unless it is there and was built by the same recipe. It appears complete or not at all.
pub(crate) fn build_once(place: &Path, recipe: &str, build: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let stamp = beside(place, "recipe");
    if place.exists() && fs::read_to_string(&stamp).is_ok_and(|built_by| built_by == recipe) {
        return Ok(());
    }
    eprintln!("building {}", place.display());
    let unfinished = beside(place, "unfinished");
    remove(&unfinished)?;
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    build(&unfinished).with_context(|| format!("cannot build {}", place.display()))?;
    remove(place)?;
    fs::rename(&unfinished, place).with_context(|| format!("cannot rename to {}", place.display()))?;
    fs::write(&stamp, recipe).with_context(|| format!("cannot write {}", stamp.display()))
}

fn beside(place: &Path, suffix: &str) -> PathBuf {
    let mut name = place.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

fn remove(place: &Path) -> Result<()> {
    let removed = if place.is_dir() { fs::remove_dir_all(place) } else { fs::remove_file(place) };
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.with_context(|| format!("cannot remove {}", place.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_again_only_when_the_recipe_changes() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("thing");
        let build = |recipe: &str, content: &str| {
            build_once(&place, recipe, |unfinished| Ok(fs::write(unfinished, content)?)).unwrap();
            fs::read_to_string(&place).unwrap()
        };
        assert_eq!(build("one", "first"), "first");
        assert_eq!(build("one", "not built"), "first");
        assert_eq!(build("two", "second"), "second");
    }

    #[test]
    fn a_failed_build_leaves_the_old_thing() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("thing");
        build_once(&place, "one", |unfinished| Ok(fs::create_dir(unfinished)?)).unwrap();
        build_once(&place, "two", |_| anyhow::bail!("no")).unwrap_err();
        assert!(place.is_dir());
    }
}
