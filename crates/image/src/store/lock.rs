//! Locks that are released with their process, however it ends.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

/// A lock on the whole store: shared to begin using an image, exclusive to remove images. Held only briefly.
#[derive(Debug)]
pub struct Held {
    _file: Option<File>,
}

pub(crate) fn shared(path: &Path) -> io::Result<Held> {
    hold(path, FlockOperation::LockShared)
}

pub(crate) fn alone(path: &Path) -> io::Result<Held> {
    hold(path, FlockOperation::LockExclusive)
}

fn hold(path: &Path, operation: FlockOperation) -> io::Result<Held> {
    let open = || fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = match open() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make_directory(path.parent().unwrap_or(Path::new("/")))?;
            open()?
        }
        // Nothing is removed from such a store either.
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => return Ok(Held { _file: None }),
        result => result?,
    };
    flock(&file, operation)?;
    Ok(Held { _file: Some(file) })
}

/// A lock on one piece of work. Its file is removed when the work is done.
#[derive(Debug)]
pub(crate) struct Work {
    path: PathBuf,
    _file: File,
}

impl Work {
    /// Waits for the present holder.
    pub(crate) fn wait(path: PathBuf) -> io::Result<Self> {
        loop {
            let file = open_work(&path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            // The previous holder removed the file that we waited for.
            if is_at(&file, &path) {
                return Ok(Self { path, _file: file });
            }
        }
    }

    /// `None`: the lock is held.
    pub(crate) fn try_take(path: PathBuf) -> io::Result<Option<Self>> {
        let file = open_work(&path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
            Ok(()) => Ok(is_at(&file, &path).then(|| Self { path, _file: file })),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn open_work(path: &Path) -> io::Result<File> {
    let open = || fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    match open() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make_directory(path.parent().unwrap_or(Path::new("/")))?;
            open()
        }
        result => result,
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let here = fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
    matches!((file.metadata(), here), (Ok(own), Ok(here)) if (own.dev(), own.ino()) == here)
}

fn flock(file: &File, operation: FlockOperation) -> io::Result<()> {
    loop {
        match rustix::fs::flock(file, operation) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// For root only: an image's directories may be world-writable.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_by_one_at_a_time_and_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/a.lock");
        let inside = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _work = Work::wait(path.clone()).unwrap();
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(!path.exists());
        let held = Work::wait(path.clone()).unwrap();
        assert!(Work::try_take(path.clone()).unwrap().is_none());
        drop(held);
        assert!(Work::try_take(path).unwrap().is_some());
    }
}
