//! One mount at a time per target: two calls for the same place do not stack their mounts.
//!
//! ```text
//! /run/shorefast/targets/HASH    locked by the process that mounts there; its number is in the file
//! ```
//! The lock is released with the process, however it ends. The file is removed by the lock's holder, so after locking it must be checked
//! again: the file may have been removed meanwhile, and another may be in its place.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use shorefast_image::Digest;

use crate::error::Error;
use crate::records;

/// Dropping it lets the next call mount there.
#[derive(Debug)]
pub struct TargetLock {
    path: PathBuf,
    _file: File,
}

/// Time for a killed process to close its files.
const TO_DIE: Duration = Duration::from_secs(1);

/// Retry interval of a waiting call.
const AGAIN: Duration = Duration::from_millis(1);

/// `target`: as the kernel names it, in the mount namespace with this inode.
pub fn take(run_dir: &Path, namespace: u64, target: &Path, deadline: Instant) -> Result<TargetLock, Error> {
    let directory = run_dir.join(DIRECTORY);
    let key = [&namespace.to_ne_bytes(), target.as_os_str().as_bytes()].concat();
    let path = directory.join(&Digest::of(&key).hex()[..32]);
    let fail = |source| Error::Record { path: path.clone(), source };
    loop {
        let file = match open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                records::make_directory(&directory).map_err(fail)?;
                continue;
            }
            file => file.map_err(fail)?,
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_at(&file, &path) => {
                let _ = file.set_len(0).and_then(|()| write!(&file, "{}", std::process::id()));
                return Ok(TargetLock { path, _file: file });
            }
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(AGAIN),
            Err(Errno::WOULDBLOCK) => return Err(Error::Underway { path: target.to_owned(), pid: holder(&file) }),
            Err(errno) => return Err(fail(errno.into())),
        }
    }
}

const DIRECTORY: &str = "targets";

/// Removes files that killed processes left. A process that is just being killed may hold its lock for another moment.
pub fn remove_stale(run_dir: &Path) {
    let directory = run_dir.join(DIRECTORY);
    let deadline = Instant::now() + TO_DIE;
    for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(file) = File::open(&path) else { continue };
        while rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
            && is_dead(holder(&file))
            && Instant::now() < deadline
        {
            std::thread::sleep(AGAIN);
        }
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_at(&file, &path) {
            let _ = fs::remove_file(&path);
        }
    }
    remove_if_empty(&directory);
}

/// The directory of locks, and the run directory: an installation without mounts leaves neither.
fn remove_if_empty(directory: &Path) {
    directory.ancestors().take(2).for_each(|directory| drop(fs::remove_dir(directory)));
}

impl Drop for TargetLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        self.path.parent().into_iter().for_each(remove_if_empty);
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn is_at(file: &File, path: &Path) -> bool {
    let same = |there: fs::Metadata| file.metadata().is_ok_and(|here| (here.dev(), here.ino()) == (there.dev(), there.ino()));
    fs::metadata(path).is_ok_and(same)
}

/// A hint only: the lock is what counts.
fn holder(file: &File) -> i32 {
    let mut text = [0; 16];
    let length = file.read_at(&mut text, 0).unwrap_or(0);
    std::str::from_utf8(&text[..length]).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn is_dead(pid: i32) -> bool {
    !rustix::process::Pid::from_raw(pid).is_some_and(shorefast_sys::process::has_memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_at_a_time_and_no_file_is_left() {
        let run = tempfile::tempdir().unwrap();
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let lock = take(run.path(), 1, Path::new("/srv/x"), Instant::now() + Duration::from_secs(60)).unwrap();
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert!(!run.path().join(DIRECTORY).exists());
    }

    #[test]
    fn whoever_waits_in_vain_is_told_for_whom() {
        let run = tempfile::tempdir().unwrap();
        let soon = || Instant::now() + Duration::from_millis(20);
        let _held = take(run.path(), 1, Path::new("/srv/x"), soon()).unwrap();
        let error = take(run.path(), 1, Path::new("/srv/x"), soon()).unwrap_err();
        assert!(matches!(error, Error::Underway { pid, .. } if pid == std::process::id() as i32), "{error}");
        // Other targets, and the same path in another namespace, are other places.
        take(run.path(), 1, Path::new("/srv/y"), soon()).unwrap();
        take(run.path(), 2, Path::new("/srv/x"), soon()).unwrap();
        remove_stale(run.path());
        assert!(take(run.path(), 1, Path::new("/srv/x"), soon()).is_err(), "what is held is not stale");
    }
}
