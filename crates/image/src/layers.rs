//! In: archives. Out: their entries, applied on top of each other below one directory and nowhere else.
//!
//! The author of the image is taken to be hostile: any name, link, size or header is possible. The kernel resolves every path within the
//! directory, limits are counted while the archive streams in, and everything that could have an effect outside of the image is dropped:
//! set-uid and set-gid bits, devices and FIFOs, and all extended attributes but `user.*`.

mod apply;
mod hide;
mod parents;
mod entries;
mod entry;
mod pax;
mod sparse;
mod decimal;
mod limits;
mod values;

use std::collections::HashMap;
use std::fs::File;
use std::io::BufRead;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::layers::limits::Budget;
pub use crate::layers::limits::Limits;
pub use crate::layers::values::{Error, Rules, Unpacked};

/// A directory to which layers are applied, the lowest first.
#[derive(Debug)]
pub struct Unpacking {
    root: OwnedFd,
    budget: Budget,
    done: Unpacked,
    layers: u64,
}

impl Unpacking {
    pub fn into(directory: &Path, limits: Limits) -> Result<Self, Error> {
        let root = rustix::fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let root = root.map_err(|errno| Error::Root { path: directory.to_owned(), source: errno.into() })?;
        Ok(Self { root, budget: Budget::new(limits), done: Unpacked::default(), layers: 0 })
    }

    /// Applies a layer. `wants`: whether to take an entry, by its path without a leading slash.
    pub fn apply(&mut self, archive: impl BufRead, rules: Rules, wants: impl Fn(&[u8]) -> bool) -> Result<(), Error> {
        self.budget.spend_layer()?;
        let below = if self.layers == 0 { apply::Below::Nothing } else { apply::Below::Layers };
        self.layers += 1;
        let entries = entries::Entries::new(archive, &mut self.budget);
        apply::layer(self.root.as_fd(), entries, apply::Terms { rules, below }, wants, &mut self.done)
    }

    /// The directory to which they are applied.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// How much may still follow the end of the last archive.
    pub fn bytes_left(&self) -> u64 {
        self.budget.bytes_left()
    }

    pub fn finish(self) -> Unpacked {
        Unpacked { entries: self.budget.entries(), ..self.done }
    }
}

/// A file in an archive that is read in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    File {
        offset: u64,
        size: u64,
    },
    /// To another member, by its path in the archive.
    Link(Vec<u8>),
}

/// The positions of files in an archive of archives. Reads only the headers.
pub fn members(archive: &File) -> Result<HashMap<Vec<u8>, Member>, Error> {
    let length = archive.metadata().map_err(Error::Read)?.len();
    // The archive is a local file of known length, so its bytes need no limit.
    let mut budget = Budget::new(Limits { bytes: u64::MAX, entries: MEMBERS, ..Limits::default() });
    let mut entries = entries::Entries::of_file(archive.try_clone().map_err(Error::Read)?, &mut budget);
    let mut members = HashMap::new();
    while let Some(entry) = entries.next()? {
        let Ok(path) = entry::cleaned(&entry.path, &Limits::default()) else { continue };
        let member = match entry.kind {
            entry::Kind::File => Member::File { offset: entries.position().map_err(Error::Read)?, size: entry.stored },
            entry::Kind::Symlink(target) => Member::Link(parents::joined(entry::split(&path).0, &target)),
            entry::Kind::HardLink(target) => Member::Link(parents::joined(b"", &target)),
            _ => continue,
        };
        if let Member::File { offset, size } = &member
            && offset.checked_add(*size).is_none_or(|end| end > length)
        {
            return Err(Error::Malformed("it ends in the middle of a file"));
        }
        members.insert(path, member);
    }
    Ok(members)
}

/// An image has some hundred layers at most.
const MEMBERS: u64 = 20_000;
