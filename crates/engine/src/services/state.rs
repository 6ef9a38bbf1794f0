//! State that a service keeps across restarts: a directory per service, chowned to the uid that its sandbox has this time.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::services::plan::{Boot, Kept};

/// Next to the directory: the boot id of its last use.
const BOOT: &str = ".boot";

/// Creates what is missing, and chowns all of it to `owner`.
///
/// The content was written by an untrusted daemon that may still run: everything below is opened relative to the directory descriptor,
/// without following links, and chown applies to the descriptor that was opened (no TOCTOU).
pub fn prepare(kept: &Kept, owner: u32) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&kept.outside)?;
    let top = rustix::fs::open(&kept.outside, DIRECTORY, Mode::empty())?;
    kept.directories.iter().try_for_each(|path| make_below(&top, Path::new(path)))?;
    give(&top, owner, 2)
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn make_below(top: &OwnedFd, path: &Path) -> io::Result<()> {
    let mut parent = top.try_clone()?;
    for name in path {
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o700)) {
            Err(Errno::EXIST) | Ok(()) => {}
            Err(errno) => return Err(errno.into()),
        }
        parent = rustix::fs::openat(&parent, name, DIRECTORY, Mode::empty())?;
    }
    Ok(())
}

fn give(directory: &OwnedFd, owner: u32, depth: u32) -> io::Result<()> {
    chown(directory, owner)?;
    let entries = if depth > 0 { Some(Dir::read_from(directory)?) } else { None };
    for entry in entries.into_iter().flatten() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let path_only = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let given = match rustix::fs::openat(directory, name, DIRECTORY, Mode::empty()) {
            Ok(below) => give(&below, owner, depth - 1),
            // For a symlink, the link itself is chowned.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                rustix::fs::openat(directory, name, path_only, Mode::empty()).map_err(io::Error::from).and_then(|file| chown(&file, owner))
            }
            Err(errno) => Err(errno.into()),
        };
        match given {
            // Removed by the daemon meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    Ok(())
}

fn chown(opened: &OwnedFd, owner: u32) -> io::Result<()> {
    let (user, group) = (Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)));
    Ok(rustix::fs::chownat(opened, c"", user, group, AtFlags::EMPTY_PATH)?)
}

/// Whether this is the first use since boot. Records the use.
pub fn boot(kept: &Kept) -> io::Result<Boot> {
    let now = fs::read("/proc/sys/kernel/random/boot_id")?;
    let mut note = kept.outside.clone().into_os_string();
    note.push(BOOT);
    if fs::read(&note).is_ok_and(|last| last == now) {
        return Ok(Boot::Same);
    }
    fs::write(note, now)?;
    Ok(Boot::New)
}

/// A socket without a listener makes the next bind(2) fail.
pub fn remove_stale_socket(path: &Path) {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, RenameFlags};

    use super::*;

    #[test]
    fn a_boot_is_noticed_once() {
        let directory = tempfile::tempdir().unwrap();
        let kept: Kept =
            serde_json::from_value(serde_json::json!({ "outside": directory.path().join("a.b"), "inside": "/x", "directories": ["sm"] }))
                .unwrap();
        prepare(&kept, rustix::process::getuid().as_raw()).unwrap();
        assert!(kept.outside.join("sm").is_dir());
        assert_eq!(boot(&kept).unwrap(), Boot::New);
        assert_eq!(boot(&kept).unwrap(), Boot::Same);
    }

    fn kept(outside: &Path) -> Kept {
        serde_json::from_value(serde_json::json!({ "outside": outside, "inside": "/x", "directories": ["sm/below"] })).unwrap()
    }

    /// chown changes the ctime, even if the owner stays the same.
    fn changed(path: &Path) -> (i64, i64) {
        let metadata = fs::symlink_metadata(path).unwrap();
        (metadata.ctime(), metadata.ctime_nsec())
    }

    #[test]
    fn links_of_a_daemon_lead_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, outside) = (directory.path().join("victim"), directory.path().join("kept"));
        fs::create_dir_all(victim.join("below")).unwrap();
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&victim, outside.join("sm")).unwrap();
        assert!(prepare(&kept(&outside), rustix::process::getuid().as_raw()).is_err(), "a link is no directory of ours");
    }

    #[test]
    fn a_directory_that_becomes_a_link_gives_nothing_else_away() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, outside) = (directory.path().join("victim"), directory.path().join("kept"));
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("file"), "").unwrap();
        fs::create_dir_all(outside.join("a")).unwrap();
        std::os::unix::fs::symlink(&victim, outside.join("b")).unwrap();
        let before = changed(&victim.join("file"));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let (a, b) = (outside.join("a"), outside.join("b"));
                    rustix::fs::renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let top = rustix::fs::open(&outside, DIRECTORY, Mode::empty()).unwrap();
            for _ in 0..20_000 {
                give(&top, rustix::process::getuid().as_raw(), 2).unwrap();
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(changed(&victim.join("file")), before, "a file that is not the service's was given away");
    }

    #[test]
    fn only_a_socket_without_a_listener_goes() {
        let directory = tempfile::tempdir().unwrap();
        let (file, socket) = (directory.path().join("file"), directory.path().join("socket"));
        fs::write(&file, "").unwrap();
        remove_stale_socket(&file);
        assert!(file.exists());
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        remove_stale_socket(&socket);
        assert!(socket.exists());
        drop(listener);
        remove_stale_socket(&socket);
        assert!(!socket.exists());
    }
}
