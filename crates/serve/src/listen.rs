//! In: the path of a unix socket. Out: a listener there. A server that still listens at the path is replaced in one step, and does not
//! remove our socket when it ends.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use shorefast_sys::activation::Passed;

/// Dropped: the socket is removed, if it is still this one.
#[derive(Debug)]
pub struct Bound {
    pub listener: UnixListener,
    /// `None`: systemd's, which keeps it.
    place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
}

impl Bound {
    pub fn is_systemds(&self) -> bool {
        self.place.is_none()
    }
}

/// Takes the socket that was passed under this name, or binds one at `path`.
pub fn at(path: &Path, name: &str, passed: &mut Vec<Passed>) -> io::Result<Bound> {
    let listener = match passed.iter().position(|one| one.name == name) {
        Some(found) => UnixListener::from(passed.swap_remove(found).socket),
        None => return bind(path),
    };
    listener.set_nonblocking(true)?;
    Ok(Bound { listener, place: None })
}

fn bind(path: &Path) -> io::Result<Bound> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Err(io::ErrorKind::InvalidInput.into()) };
    DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    let directory = File::open(directory)?;
    // Below a descriptor: the path may be longer than the 108 bytes of a socket's address.
    let below = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    // kubelet ignores names with a dot. The name of a killed server with our pid may be taken.
    let new = below.join(format!(".shorefast-{}", std::process::id()));
    let _ = fs::remove_file(&new);
    let listener = UnixListener::bind(&new)?;
    let renamed = || {
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
        let status = fs::symlink_metadata(&new)?;
        refuse_foreign(&below.join(name))?;
        fs::rename(&new, below.join(name))?;
        Ok::<_, io::Error>((status.dev(), status.ino()))
    };
    let file = renamed().inspect_err(|_| drop(fs::remove_file(&new)))?;
    listener.set_nonblocking(true)?;
    Ok(Bound { listener, place: Some(Place { path: path.to_owned(), file }) })
}

/// Only a socket is replaced.
fn refuse_foreign(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    match fs::symlink_metadata(path) {
        Ok(status) if !status.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket"))
        }
        _ => Ok(()),
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let Some(place) = &self.place else { return };
        if fs::symlink_metadata(&place.path).is_ok_and(|status| (status.dev(), status.ino()) == place.file) {
            let _ = fs::remove_file(&place.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_successor_replaces_the_socket_and_keeps_it() {
        let directory = std::env::temp_dir().join(format!("shorefast-listen-{}", std::process::id()));
        let path = directory.join("long".repeat(40)).join("s.sock");
        let first = at(&path, "csi", &mut Vec::new()).unwrap();
        let second = at(&path, "csi", &mut Vec::new()).unwrap();
        drop(first);
        let opened = File::open(path.parent().unwrap()).unwrap();
        UnixStream::connect(format!("/proc/self/fd/{}/s.sock", opened.as_raw_fd())).unwrap();
        drop(second);
        assert!(!path.exists());
        fs::write(&path, "a file of somebody else").unwrap();
        assert_eq!(at(&path, "csi", &mut Vec::new()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        fs::remove_file(&path).unwrap();
        fs::remove_dir(path.parent().unwrap()).unwrap();
        fs::remove_dir(&directory).unwrap();
    }
}
