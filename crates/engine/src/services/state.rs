//! What a service keeps over restarts: a directory of its own, given to whichever ids its sandbox has this time.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::services::plan::{Boot, Kept};

/// Beside the directory: which boot of this host it was used in last.
const BOOT: &str = ".boot";

/// Makes what is not there yet, and gives all of it to `owner`.
pub fn prepare(kept: &Kept, owner: u32) -> io::Result<()> {
    let make = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    make(&kept.outside)?;
    kept.directories.iter().try_for_each(|name| make(&kept.outside.join(name)))?;
    give(&kept.outside, owner, 2)
}

/// Never follows a link: what is in there was written by a daemon that is trusted with nothing.
fn give(path: &Path, owner: u32, depth: u32) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(owner), Some(owner))?;
    if depth > 0 && fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), owner, depth - 1)?;
        }
    }
    Ok(())
}

/// Whether this is the first use since the host started. From now on it is not.
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

/// A socket that nobody listens at keeps the next one from being made.
pub fn remove_stale_socket(path: &Path) {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
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
