//! A cache of open directories for the entries that are written into them.
//!
//! Every path is resolved by the kernel within the root (`RESOLVE_IN_ROOT`): no link in the archive leads outside. Writing into a directory
//! changes its mtime; when it is closed, it gets back the time that it had or that its entry set.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use crate::layers::entry::split;

/// Archives are written depth first: moving between this many directories is common.
const OPEN: usize = 24;
/// As many dangling links in one path as the kernel follows links.
const LINKS: u32 = 40;

#[derive(Debug)]
pub(crate) struct Parents<'a> {
    root: BorrowedFd<'a>,
    /// Most recently used last.
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    path: Vec<u8>,
    directory: OwnedFd,
    inode: (u64, u64),
    times: Timestamps,
}

impl<'a> Parents<'a> {
    pub(crate) fn below(root: BorrowedFd<'a>) -> Self {
        Self { root, open: Vec::new() }
    }

    /// The directory at `path`, created if necessary.
    pub(crate) fn at(&mut self, path: &[u8]) -> io::Result<BorrowedFd<'_>> {
        match self.open.iter().rposition(|open| open.path == path) {
            Some(position) => {
                let last = self.open.len() - 1;
                self.open[position..].rotate_left(1);
                Ok(self.open[last].directory.as_fd())
            }
            None => {
                let directory = self.made(path, 0)?;
                let stat = rustix::fs::fstat(&directory)?;
                let times = self.known_times(&stat).unwrap_or_else(|| times_of(&stat));
                Ok(self.keep(path, directory, &stat, times))
            }
        }
    }

    /// `directory` is at `path` and has just been given this time: its content comes next.
    pub(crate) fn insert(&mut self, path: &[u8], directory: OwnedFd, mtime: Timespec) -> io::Result<()> {
        let stat = rustix::fs::fstat(&directory)?;
        let times = Timestamps { last_access: mtime, last_modification: mtime };
        let inode = (stat.st_dev, stat.st_ino);
        self.open.iter_mut().filter(|open| open.inode == inode).for_each(|open| open.times = times.clone());
        if !self.open.iter().any(|open| open.path == path) {
            self.keep(path, directory, &stat, times);
        }
        Ok(())
    }

    /// Closes all: after the removal of something that a path may have led through, and at the end.
    pub(crate) fn close(&mut self) {
        self.open.drain(..).for_each(Open::close);
    }

    /// The same directory may also be open by another path, through a link.
    fn known_times(&self, stat: &Stat) -> Option<Timestamps> {
        self.open.iter().find(|open| open.inode == (stat.st_dev, stat.st_ino)).map(|open| open.times.clone())
    }

    fn keep(&mut self, path: &[u8], directory: OwnedFd, stat: &Stat, times: Timestamps) -> BorrowedFd<'_> {
        if self.open.len() == OPEN {
            self.open.remove(0).close();
        }
        self.open.push(Open { path: path.to_owned(), directory, inode: (stat.st_dev, stat.st_ino), times });
        self.open[self.open.len() - 1].directory.as_fd()
    }

    fn made(&self, path: &[u8], links: u32) -> io::Result<OwnedFd> {
        match resolve(self.root, path) {
            Err(Errno::NOENT) if !path.is_empty() => {}
            result => return Ok(result?),
        }
        let (parent, name) = split(path);
        let parent_directory = self.made(parent, links)?;
        match rustix::fs::mkdirat(&parent_directory, name, Mode::from_raw_mode(0o755)) {
            // A link to a directory that does not exist yet: an archive may have the link first.
            Err(Errno::EXIST) if links < LINKS => {
                let target = rustix::fs::readlinkat(&parent_directory, name, Vec::new())?;
                drop(self.made(&joined(parent, target.as_bytes()), links + 1)?);
            }
            Err(Errno::EXIST) => return Err(Errno::LOOP.into()),
            result => result?,
        }
        Ok(resolve(self.root, path)?)
    }
}

impl Open {
    fn close(self) {
        // A wrong time is not worth an error; the directory may have been removed meanwhile.
        let _ = rustix::fs::futimens(&self.directory, &self.times);
    }
}

/// The existing directory at `path`, resolved with `root` as `/`.
pub(crate) fn resolve(root: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = if path.is_empty() { b"." } else { path };
    // The kernel returns EAGAIN when there is a concurrent rename or mount anywhere on the machine. When it restarts the lookup by itself,
    // it keeps counting links, and returns ELOOP at half the limit. A real loop fails the image, so the retries are paid only once.
    const TRIES: u32 = 1000;
    let mut result = Err(Errno::AGAIN);
    for _ in 0..TRIES {
        result = rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS);
        if !matches!(result, Err(Errno::AGAIN | Errno::LOOP)) {
            break;
        }
    }
    result
}

pub(crate) fn stat(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<(FileType, Stat)> {
    let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((FileType::from_raw_mode(stat.st_mode), stat))
}

/// Where a link in `parent` points, as a path below the root. Only ever resolved within the root.
pub(crate) fn joined(parent: &[u8], target: &[u8]) -> Vec<u8> {
    let start = if target.starts_with(b"/") { b"" } else { parent };
    let mut names: Vec<&[u8]> = Vec::new();
    for name in start.split(|byte| *byte == b'/').chain(target.split(|byte| *byte == b'/')) {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join(&b'/')
}

fn times_of(stat: &Stat) -> Timestamps {
    let time = |tv_sec: i64, tv_nsec: u64| Timespec { tv_sec, tv_nsec: tv_nsec.cast_signed() };
    #[expect(clippy::useless_conversion, reason = "the types of these fields differ between machines")]
    Timestamps {
        last_access: time(stat.st_atime.into(), stat.st_atime_nsec.into()),
        last_modification: time(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_joined_below_the_root() {
        let rows =
            [("usr", "lib", "usr/lib"), ("usr", "/lib", "lib"), ("a/b", "../c", "a/c"), ("a", "../../../etc", "etc"), ("", "..", "")];
        for (parent, target, expected) in rows {
            assert_eq!(joined(parent.as_bytes(), target.as_bytes()), expected.as_bytes());
        }
    }
}
