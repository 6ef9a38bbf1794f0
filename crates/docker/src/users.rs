//! The users of a volume: one empty file for each id, in a directory for each boot. After a reboot, no volume has a user.

use std::fs::{self, DirBuilder, DirEntry, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const PREFIX: &str = "users-";

/// The users of one volume, whose lock the caller holds.
#[derive(Debug)]
pub struct Users {
    volume: PathBuf,
    now: PathBuf,
}

impl Users {
    pub fn of(volume: &Path, boot: &str) -> Self {
        Self { volume: volume.to_owned(), now: volume.join(format!("{PREFIX}{boot}")) }
    }

    /// Adding it again changes nothing.
    pub fn add(&self, id: &str) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.now)?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(self.now.join(id))?;
        file.set_modified(SystemTime::now())
    }

    /// How long ago the last user was added. `None`: there is none.
    pub fn since_the_last(&self) -> Option<Duration> {
        let age = |entry: DirEntry| entry.metadata().and_then(|file| file.modified()).ok()?.elapsed().ok();
        // A user whose time cannot be read, or is in the future, counts as added just now.
        self.each().map(|user| age(user).unwrap_or_default()).min()
    }

    /// All users of this boot.
    pub fn remove_all(&self) -> io::Result<()> {
        self.each().try_for_each(|user| gone(fs::remove_file(user.path())))
    }

    fn each(&self) -> impl Iterator<Item = DirEntry> {
        fs::read_dir(&self.now).into_iter().flatten().flatten()
    }

    pub fn remove(&self, id: &str) -> io::Result<()> {
        gone(fs::remove_file(self.now.join(id)))
    }

    pub fn count(&self) -> usize {
        self.each().count()
    }

    /// The users of this boot and of all before.
    pub fn forget(&self) -> io::Result<()> {
        for directory in fs::read_dir(&self.volume)?.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
            for user in fs::read_dir(directory.path())?.flatten() {
                gone(fs::remove_file(user.path()))?;
            }
            gone(fs::remove_dir(directory.path()))?;
        }
        Ok(())
    }
}

pub(crate) fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_counts_once_and_only_in_its_boot() {
        let directory = tempfile::tempdir().unwrap();
        let (before, now) = (Users::of(directory.path(), "one"), Users::of(directory.path(), "two"));
        before.add("old").unwrap();
        for id in ["a", "b", "a"] {
            now.add(id).unwrap();
        }
        assert_eq!((before.count(), now.count()), (1, 2));
        for id in ["a", "a", "never"] {
            now.remove(id).unwrap();
        }
        assert_eq!(now.count(), 1);
        assert!(now.since_the_last().unwrap() < Duration::from_secs(60));
        let file = OpenOptions::new().write(true).open(now.now.join("b")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
        assert!(now.since_the_last().unwrap() >= Duration::from_secs(3600));
        file.set_modified(SystemTime::now() + Duration::from_secs(3600)).unwrap();
        assert_eq!(now.since_the_last(), Some(Duration::ZERO));
        now.remove_all().unwrap();
        assert_eq!((now.count(), now.since_the_last(), before.count()), (0, None, 1));
        now.forget().unwrap();
        assert_eq!((before.count(), now.count()), (0, 0));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
