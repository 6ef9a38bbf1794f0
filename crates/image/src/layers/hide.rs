//! Removes the entries that a layer hides: those that it replaces, and those that its whiteouts name.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::layers::parents;

/// A whiteout hides entries of the layers below, never those of its own layer, whichever comes first in the archive. This remembers the
/// latter, a few bytes per path.
#[derive(Debug, Default)]
pub(crate) struct Brought {
    hasher: RandomState,
    paths: HashSet<u64>,
}

impl Brought {
    pub(crate) fn add(&mut self, path: &[u8]) {
        self.paths.insert(self.hasher.hash_one(path));
    }

    fn contains(&self, path: &[u8]) -> bool {
        self.paths.contains(&self.hasher.hash_one(path))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    Nothing,
    /// Paths that were resolved before may lead elsewhere now.
    Ways,
    Files,
}

/// Removes `name` with everything below it.
pub(crate) fn all(parent: BorrowedFd<'_>, name: &[u8], nesting: u64) -> io::Result<Hidden> {
    Hiding { brought: None, nesting }.entry(parent, name, b"").map(|(hidden, _)| hidden)
}

/// Removes `name`, at `path`, as far as it comes from lower layers.
pub(crate) fn lower(parent: BorrowedFd<'_>, name: &[u8], path: &[u8], brought: &Brought, nesting: u64) -> io::Result<Hidden> {
    Hiding { brought: Some(brought), nesting }.entry(parent, name, path).map(|(hidden, _)| hidden)
}

/// Removes the entries of `directory`, at `path`, that come from lower layers.
pub(crate) fn lower_content(directory: BorrowedFd<'_>, path: &[u8], brought: &Brought, nesting: u64) -> io::Result<Hidden> {
    let own = rustix::fs::openat(directory, c".", DIRECTORY, Mode::empty())?;
    Hiding { brought: Some(brought), nesting }.content(&own, path).map(|_| Hidden::Ways)
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

struct Hiding<'a> {
    brought: Option<&'a Brought>,
    nesting: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    Something,
}

impl Hiding<'_> {
    fn entry(&self, parent: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> io::Result<(Hidden, Left)> {
        let kind = match parents::stat(parent, name) {
            Err(Errno::NOENT) => return Ok((Hidden::Nothing, Left::Nothing)),
            stat => stat?.0,
        };
        let is_brought = self.brought.is_some_and(|brought| brought.contains(path));
        if kind == FileType::Directory {
            // Through links, directories can be deeper than any single path in the archive.
            let deeper = self.nesting.checked_sub(1).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "it is nested too deeply"))?;
            let directory = rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())?;
            let left = Hiding { nesting: deeper, ..*self }.content(&directory, path)?;
            if left == Left::Nothing && !is_brought {
                rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?;
                return Ok((Hidden::Ways, Left::Nothing));
            }
            return Ok((Hidden::Ways, Left::Something));
        }
        if is_brought {
            return Ok((Hidden::Nothing, Left::Something));
        }
        rustix::fs::unlinkat(parent, name, AtFlags::empty())?;
        Ok((if kind == FileType::Symlink { Hidden::Ways } else { Hidden::Files }, Left::Nothing))
    }

    fn content(&self, directory: &std::os::fd::OwnedFd, path: &[u8]) -> io::Result<Left> {
        use std::os::fd::AsFd as _;
        let mut left = Left::Nothing;
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let below = if path.is_empty() { name.to_owned() } else { [path, b"/", name].concat() };
            if self.entry(directory.as_fd(), name, &below)?.1 == Left::Something {
                left = Left::Something;
            }
        }
        Ok(left)
    }
}
