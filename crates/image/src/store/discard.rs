//! Removes a directory with everything in it, however deep a hostile image made it.
//!
//! Only called for directories of the store that are no longer reachable by an image's name, and by an uninstallation. Nothing is
//! mounted there; nevertheless, it stops at another filesystem.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Descriptors open at once. Deeper directories are first moved up.
const DEPTH: usize = 64;
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub fn directory(path: &Path) -> io::Result<()> {
    let top = match rustix::fs::openat(CWD, path, FLAGS, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        top => top?,
    };
    let mut discarding = Discarding { device: rustix::fs::fstat(&top)?.st_dev, top: &top, moved: 0 };
    loop {
        let before = discarding.moved;
        discarding.content(&top, 0)?;
        if discarding.moved == before {
            break;
        }
    }
    Ok(rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

struct Discarding<'a> {
    top: &'a OwnedFd,
    device: u64,
    moved: u64,
}

impl Discarding<'_> {
    fn content(&mut self, directory: &OwnedFd, depth: usize) -> io::Result<()> {
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_bytes() == b"." || name.to_bytes() == b".." {
                continue;
            }
            let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if stat.st_dev != self.device {
                return Err(io::Error::new(ErrorKind::CrossesDevices, format!("{name:?} in it is on another filesystem")));
            }
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
            } else if depth == DEPTH {
                self.move_up(directory, name)?;
            } else {
                let below = rustix::fs::openat(directory.as_fd(), name, FLAGS, Mode::empty())?;
                self.content(&below, depth + 1)?;
                rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?;
            }
        }
        Ok(())
    }

    fn move_up(&mut self, directory: &OwnedFd, name: &std::ffi::CStr) -> io::Result<()> {
        loop {
            self.moved += 1;
            let free = format!(".deep-{}", self.moved);
            match rustix::fs::renameat_with(directory, name, self.top, &free, rustix::fs::RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => {}
                result => return Ok(result?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nested_deeper_than_a_path_can_say_is_removed() {
        let directory_ = tempfile::tempdir().unwrap();
        let path = directory_.path().join("deep");
        std::fs::create_dir(&path).unwrap();
        let mut current = rustix::fs::openat(CWD, &path, FLAGS, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&current, c"a", Mode::from_raw_mode(0o700)).unwrap();
            current = rustix::fs::openat(&current, c"a", FLAGS, Mode::empty()).unwrap();
        }
        rustix::fs::symlinkat(c"/", &current, c"link").unwrap();
        directory(&path).unwrap();
        assert!(!path.exists());
        directory(&path).unwrap();
    }
}
