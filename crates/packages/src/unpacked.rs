//! The unpacked packages, as a directory descriptor. Paths are resolved inside it, so its links cannot lead out.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};

pub(crate) struct Unpacked<'a> {
    root: BorrowedFd<'a>,
}

impl<'a> Unpacked<'a> {
    pub(crate) fn below(root: BorrowedFd<'a>) -> Self {
        Self { root }
    }

    /// Also true for a link, dangling or not.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.open(path, OFlags::PATH | OFlags::NOFOLLOW).is_ok()
    }

    /// The beginning of a file, up to `limit` bytes.
    pub(crate) fn read(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        File::from(self.open(path, OFlags::RDONLY | OFlags::NONBLOCK)?).take(limit).read_to_end(&mut content)?;
        Ok(content)
    }

    /// The entries of a directory, without names that are not UTF-8. Empty if it does not exist.
    pub(crate) fn list(&self, path: &str) -> io::Result<Vec<(String, FileType)>> {
        let mut entries = Vec::new();
        let Ok(directory) = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY) else { return Ok(entries) };
        for entry in Dir::read_from(directory.as_fd())? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().to_str() {
                entries.push((name.to_owned(), entry.file_type()));
            }
        }
        Ok(entries)
    }

    /// Equal for two paths to the same file. `None`: there is no file.
    pub(crate) fn identity(&self, path: &str) -> Option<(u64, u64)> {
        let metadata = rustix::fs::fstat(self.open(path, OFlags::PATH).ok()?).ok()?;
        Some((metadata.st_dev, metadata.st_ino))
    }

    fn open(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat2(self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
    }
}
