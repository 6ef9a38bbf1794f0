//! Removes a directory with its content, whose names untrusted users chose. In: its parent directory, and its name. Never follows a link, and
//! stops at the first mount point below it.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, Dir};
use rustix::io::Errno;

use crate::base::note::open_directory;

/// Directories that are open at the same time. Deeper ones are moved up first: untrusted users decided how deep the tree is.
const DEEPEST: usize = 64;
/// Names that are read at once: untrusted users decided how many there are, too.
const AT_ONCE: usize = 1024;

/// EXDEV: there is a mount point in it. Files that were removed before it was found are gone.
pub fn remove(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<()> {
    let top = match open_directory(parent, name) {
        Err(Errno::NOENT) => return Ok(()),
        top => top?,
    };
    let mut moved = 0;
    let mut way: Vec<(CString, OwnedFd)> = Vec::new();
    loop {
        let here = way.last().map_or(top.as_fd(), |(_, directory)| directory.as_fd());
        match empty(here)? {
            Some(below) if way.len() < DEEPEST => {
                let opened = open_directory(here, &below)?;
                way.push((below, opened));
            }
            Some(below) => move_up(here, &below, top.as_fd(), &mut moved)?,
            None => match way.pop() {
                Some((emptied, directory)) => {
                    drop(directory);
                    let above = way.last().map_or(top.as_fd(), |(_, directory)| directory.as_fd());
                    remove_directory(above, emptied.as_bytes())?;
                }
                None => break,
            },
        }
    }
    drop(top);
    remove_directory(parent, name.as_bytes())
}

fn remove_directory(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Removes everything except directories, and returns the first of those. `None`: nothing is left.
fn empty(directory: BorrowedFd<'_>) -> rustix::io::Result<Option<CString>> {
    loop {
        let names = names(directory)?;
        if names.is_empty() {
            return Ok(None);
        }
        for name in names {
            match rustix::fs::unlinkat(directory, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                // Linux returns EISDIR, POSIX says EPERM, and servers return either.
                Err(Errno::ISDIR) => return Ok(Some(name)),
                Err(errno @ (Errno::PERM | Errno::ACCESS)) => match open_directory(directory, &name) {
                    Ok(_) => return Ok(Some(name)),
                    Err(Errno::XDEV) => return Err(Errno::XDEV),
                    Err(_) => return Err(errno),
                },
                // A mount point.
                Err(Errno::BUSY) => return Err(Errno::XDEV),
                Err(errno) => return Err(errno),
            }
        }
    }
}

fn names(directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<CString>> {
    let is_real = |name: &CString| !matches!(name.as_bytes(), b"." | b"..");
    let entries = Dir::read_from(directory)?.map(|entry| entry.map(|entry| entry.file_name().to_owned()));
    entries.filter(|entry| entry.as_ref().map_or(true, is_real)).take(AT_ONCE).collect()
}

fn move_up(from: BorrowedFd<'_>, name: &CString, to: BorrowedFd<'_>, moved: &mut u32) -> rustix::io::Result<()> {
    for _ in 0..AT_ONCE {
        *moved += 1;
        match rustix::fs::renameat(from, name, to, format!(".moved-up-{moved}")) {
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            result => return result,
        }
    }
    Err(Errno::EXIST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_links_lead_to_stays_and_the_rest_goes_however_deep_and_wide() {
        let base = tempfile::tempdir().unwrap();
        let (volume, outside) = (base.path().join("volume"), base.path().join("outside"));
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "").unwrap();
        let mut deep = volume.join("deep");
        for _ in 0..300 {
            deep.push("d");
        }
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join(".moved-up-1"), "").unwrap();
        std::os::unix::fs::symlink(&outside, deep.join("link")).unwrap();
        std::os::unix::fs::symlink("../outside", volume.join("link")).unwrap();
        fs::hard_link(outside.join("precious"), volume.join("hard")).unwrap();
        fs::create_dir(volume.join("wide")).unwrap();
        (0..3 * AT_ONCE).for_each(|number| fs::write(volume.join(format!("wide/{number}")), "").unwrap());
        let parent = fs::File::open(base.path()).unwrap();
        remove(parent.as_fd(), OsStr::new("volume")).unwrap();
        remove(parent.as_fd(), OsStr::new("volume")).unwrap();
        assert!(!volume.exists() && outside.join("precious").exists());
        std::os::unix::fs::symlink(&outside, &volume).unwrap();
        assert_eq!(remove(parent.as_fd(), OsStr::new("volume")).unwrap_err(), Errno::LOOP);
        assert!(outside.join("precious").exists());
    }
}
