//! The note of a volume on its base: a small file, named after the volume's directory. It distinguishes a directory that Shorefast created from
//! one that existed before.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use shorefast_engine::error::{Failure, Kind, Step};

use crate::task::Note;

/// The directory of notes on the base.
pub const DIRECTORY: &str = ".shorefast";

/// No component of the path is a link, or leads to another filesystem.
pub(crate) const PLAIN: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_XDEV);

pub(crate) fn failed(what: &str, errno: Errno) -> Box<Failure> {
    let kind = match errno {
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::LOOP | Errno::XDEV => Kind::Denied,
        Errno::NOSPC | Errno::DQUOT => Kind::Unavailable,
        _ => Kind::Failed,
    };
    let mut failure =
        Box::new(Failure::new(Step::Serve, kind, format!("cannot {what} on the base volume: {}", std::io::Error::from(errno))));
    failure.hint = match errno {
        Errno::ACCESS | Errno::PERM => Some("the user that the client acts as on the server must be allowed to write there".to_owned()),
        Errno::LOOP => Some("there is a symbolic link in the path: volumes are not made or removed through links".to_owned()),
        Errno::XDEV => Some("another filesystem is mounted there: no file of it is removed".to_owned()),
        _ => None,
    };
    failure
}

const LONGEST: u64 = 64 << 10;

/// `None`: there is no such volume.
pub(crate) fn read(root: &OwnedFd, key: &str) -> Result<Option<Note>, Box<Failure>> {
    let path = format!("{DIRECTORY}/{key}");
    let reading = |errno| failed(&format!("read {path}"), errno);
    let file = match rustix::fs::openat2(root, &path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty(), PLAIN) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        file => file.map_err(reading)?,
    };
    let mut bytes = Vec::new();
    let length = File::from(file).take(LONGEST).read_to_end(&mut bytes);
    length.map_err(|error| reading(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        let message = format!("{path} on the base volume is damaged: {error}");
        let mut failure = Box::new(Failure::new(Step::Serve, Kind::Failed, message));
        failure.hint = Some("remove it there, and the volume's directory, if it is no longer needed".to_owned());
        failure
    })
}

/// Whole or not at all.
pub(crate) fn write(root: &OwnedFd, key: &str, note: &Note) -> Result<(), Box<Failure>> {
    let writing = |errno| failed(&format!("write {DIRECTORY}/{key}"), errno);
    let directory =
        make_directory(root.as_fd(), DIRECTORY, mode_of(root)).map_err(|errno| failed(&format!("create {DIRECTORY}"), errno))?;
    let new = format!(".{key}");
    // Left by a worker that was killed.
    let _ = rustix::fs::unlinkat(&directory, &new, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(&directory, &new, flags, Mode::from_raw_mode(0o644), PLAIN).map_err(writing)?;
    let bytes = serde_json::to_vec(note).map_err(|_| writing(Errno::INVAL))?;
    let mut file = File::from(file);
    let written = file.write_all(&bytes).and_then(|()| file.sync_all());
    written.map_err(|error| writing(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    drop(file);
    rustix::fs::renameat(&directory, &new, &directory, key).map_err(writing)
}

pub(crate) fn remove(root: &OwnedFd, key: &str) -> Result<(), Box<Failure>> {
    let removing = |errno| failed(&format!("remove {DIRECTORY}/{key}"), errno);
    let directory = match open_directory(root.as_fd(), DIRECTORY) {
        Err(Errno::NOENT) => return Ok(()),
        directory => directory.map_err(removing)?,
    };
    match rustix::fs::unlinkat(&directory, key, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(removing(errno)),
    }
    drop(directory);
    // Succeeds only after the last note was removed.
    let _ = rustix::fs::unlinkat(root, DIRECTORY, AtFlags::REMOVEDIR);
    Ok(())
}

pub(crate) fn open_directory(at: impl AsFd, path: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat2(at, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), PLAIN)
}

/// Opens the directory; creates it with this mode if it does not exist.
pub(crate) fn make_directory(at: impl AsFd, name: impl rustix::path::Arg + Copy, mode: u32) -> rustix::io::Result<OwnedFd> {
    let made = match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno),
    };
    let directory = open_directory(&at, name)?;
    if made {
        match rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode)) {
            // A filesystem without modes.
            Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::INVAL) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(directory)
}

/// Directories that lead to volumes get the mode of the base: each client may be another user there, and all must be able to create volumes.
pub(crate) fn mode_of(root: &OwnedFd) -> u32 {
    rustix::fs::fstat(root).map_or(0o755, |status| status.st_mode & 0o777)
}
