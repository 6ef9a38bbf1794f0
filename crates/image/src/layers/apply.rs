//! In: the entries of one layer. Out: files in the root.

use std::ffi::OsString;
use std::io::{self, BufRead, ErrorKind};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use crate::layers::entries::Entries;
use crate::layers::entry::{Entry, Kind, cleaned, split};
use crate::layers::hide::{self, Brought, Hidden};
use crate::layers::limits::Limits;
use crate::layers::parents::{self, Parents};
use crate::layers::sparse::Segment;
use crate::layers::values::{Error, Rules, Unpacked};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) rules: Rules,
    pub(crate) below: Below,
}

/// Whether there are lower layers for whiteouts to hide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Below {
    Nothing,
    Layers,
}

/// Set-uid has no effect below a nosuid mount, and should not be in the store either.
const KEPT_MODE: u32 = 0o1777;
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Internal files of AUFS.
const AUFS: &[u8] = b".wh..wh.";

pub(crate) fn layer<R: BufRead>(
    root: BorrowedFd<'_>,
    mut entries: Entries<'_, R>,
    terms: Terms,
    wants: impl Fn(&[u8]) -> bool,
    done: &mut Unpacked,
) -> Result<(), Error> {
    let limits = entries.budget.limits;
    let whiteouts = terms.rules == Rules::Layer && terms.below == Below::Layers;
    let mut layer = Layer {
        root,
        parents: Parents::below(root),
        brought: whiteouts.then(Brought::default),
        rules: terms.rules,
        limits,
        is_root: rustix::process::geteuid().is_root(),
    };
    while let Some(entry) = entries.next()? {
        let failed = |source| Error::Entry { path: PathBuf::from(OsString::from_vec(entry.path.clone())), source };
        let path = cleaned(&entry.path, &limits).map_err(failed)?;
        if !wants(&path) {
            continue;
        }
        match layer.put(&path, &entry, &mut entries) {
            Ok(Put::Bytes(bytes)) => done.bytes += bytes,
            Ok(Put::Ignored) => done.ignored += 1,
            Err(Failed::Entry(source)) => return Err(failed(source)),
            Err(Failed::Archive(error)) => return Err(error),
        }
    }
    layer.parents.close();
    Ok(())
}

struct Layer<'a> {
    root: BorrowedFd<'a>,
    parents: Parents<'a>,
    /// `None`: there are no lower layers for whiteouts to hide.
    brought: Option<Brought>,
    rules: Rules,
    limits: Limits,
    is_root: bool,
}

enum Put {
    Bytes(u64),
    Ignored,
}

enum Failed {
    Entry(io::Error),
    Archive(Error),
}

impl<E: Into<io::Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Entry(error.into())
    }
}

impl Layer<'_> {
    fn put<R: BufRead>(&mut self, path: &[u8], entry: &Entry, content: &mut Entries<'_, R>) -> Result<Put, Failed> {
        if path.is_empty() {
            return self.root_itself(entry);
        }
        let (parent, name) = split(path);
        if self.rules == Rules::Layer && name.starts_with(WHITEOUT) {
            self.whiteout(parent, name)?;
            return Ok(Put::Bytes(0));
        }
        let mut bytes = 0;
        match &entry.kind {
            Kind::Directory => self.directory(path, entry)?,
            Kind::File => bytes = self.file(path, entry, None, content)?,
            Kind::Sparse { size, map } => bytes = self.file(path, entry, Some((*size, map.as_deref().unwrap_or_default())), content)?,
            Kind::Symlink(target) => self.symlink(path, entry, target)?,
            Kind::HardLink(target) => self.hard_link(path, target)?,
            Kind::Special => self.hide(path)?,
            Kind::Unknown => return Ok(Put::Ignored),
        }
        if let Some(brought) = &mut self.brought {
            brought.add(path);
        }
        Ok(if entry.kind == Kind::Special { Put::Ignored } else { Put::Bytes(bytes) })
    }

    /// The image may set the root's metadata, but not replace it.
    fn root_itself(&mut self, entry: &Entry) -> Result<Put, Failed> {
        if entry.kind != Kind::Directory {
            return Err(Failed::Entry(invalid("it replaces the root")));
        }
        let root = parents::resolve(self.root, b"")?;
        self.describe(root.as_fd(), entry, Owner::Unknown)?;
        self.parents.insert(b"", root, entry.mtime)?;
        Ok(Put::Bytes(0))
    }

    fn directory(&mut self, path: &[u8], entry: &Entry) -> Result<(), Failed> {
        const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
        let (parent, name) = split(path);
        let mut owner = Owner::Ours;
        let mut directory = None;
        let make = |parent: BorrowedFd<'_>| rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700));
        match make(self.parents.at(parent)?) {
            Err(Errno::EXIST) => {
                let (kind, _) = parents::stat(self.parents.at(parent)?, name)?;
                directory =
                    (kind == FileType::Symlink && self.rules == Rules::Package).then(|| parents::resolve(self.root, path).ok()).flatten();
                if directory.is_some() || kind == FileType::Directory {
                    owner = Owner::Unknown;
                } else {
                    self.hide(path)?;
                    make(self.parents.at(parent)?)?;
                }
            }
            result => result?,
        }
        let directory: OwnedFd = match directory {
            Some(directory) => directory,
            None => rustix::fs::openat(self.parents.at(parent)?, name, FLAGS, Mode::empty())?,
        };
        if owner == Owner::Unknown {
            remove_xattrs(directory.as_fd())?;
        }
        self.describe(directory.as_fd(), entry, owner)?;
        self.parents.insert(path, directory, entry.mtime)?;
        Ok(())
    }

    fn file<R: BufRead>(
        &mut self,
        path: &[u8],
        entry: &Entry,
        sparse: Option<(u64, &[Segment])>,
        content: &mut Entries<'_, R>,
    ) -> Result<u64, Failed> {
        const FLAGS: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
        let (parent, name) = split(path);
        let create = |parent: BorrowedFd<'_>| rustix::fs::openat(parent, name, FLAGS, Mode::from_raw_mode(0o600));
        let file = match create(self.parents.at(parent)?) {
            Err(Errno::EXIST) => {
                self.hide(path)?;
                create(self.parents.at(parent)?)?
            }
            result => result?,
        };
        let size = match sparse {
            None => {
                write_part(&file, None, entry.stored, content)?;
                entry.stored
            }
            Some((size, map)) => {
                rustix::fs::ftruncate(&file, size)?;
                for segment in map {
                    write_part(&file, Some(segment.offset), segment.length, content)?;
                }
                size
            }
        };
        self.describe(file.as_fd(), entry, Owner::Ours)?;
        rustix::fs::futimens(&file, &times(entry))?;
        Ok(size)
    }

    fn symlink(&mut self, path: &[u8], entry: &Entry, target: &[u8]) -> Result<(), Failed> {
        let (parent, name) = split(path);
        let make = |parent: BorrowedFd<'_>| rustix::fs::symlinkat(target, parent, name);
        match make(self.parents.at(parent)?) {
            Err(Errno::EXIST) => {
                self.hide(path)?;
                make(self.parents.at(parent)?)?;
            }
            result => result?,
        }
        let is_root = self.is_root;
        let parent = self.parents.at(parent)?;
        if is_root && (entry.uid, entry.gid) != (0, 0) {
            rustix::fs::chownat(parent, name, Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid)), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        rustix::fs::utimensat(parent, name, &times(entry), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    /// A hard link shares owner, mode and time with the file.
    fn hard_link(&mut self, path: &[u8], target: &[u8]) -> Result<(), Failed> {
        let target = cleaned(target, &self.limits)?;
        let (from, from_name) = split(&target);
        let (parent, name) = split(path);
        if from_name.is_empty() {
            return Err(Failed::Entry(invalid("a hard link to the root")));
        }
        let from = parents::resolve(self.root, from)?;
        let make = |parent: BorrowedFd<'_>| rustix::fs::linkat(&from, from_name, parent, name, AtFlags::empty());
        match make(self.parents.at(parent)?) {
            Err(Errno::EXIST) => {
                let (_, here) = parents::stat(self.parents.at(parent)?, name)?;
                let (_, there) = parents::stat(from.as_fd(), from_name)?;
                // The link already exists: removing it first could lose the file.
                if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino) {
                    self.hide(path)?;
                    make(self.parents.at(parent)?)?;
                }
            }
            result => result?,
        }
        Ok(())
    }

    /// Removes an entry that is being replaced.
    fn hide(&mut self, path: &[u8]) -> io::Result<()> {
        let (parent, name) = split(path);
        let hidden = hide::all(self.parents.at(parent)?, name, self.limits.nesting)?;
        self.forget(hidden);
        Ok(())
    }

    fn whiteout(&mut self, parent: &[u8], name: &[u8]) -> io::Result<()> {
        let hidden_name = &name[WHITEOUT.len()..];
        if hidden_name.is_empty() || hidden_name == b"." || hidden_name == b".." {
            return Err(invalid("a whiteout of nothing"));
        }
        let Some(brought) = &self.brought else { return Ok(()) };
        // Do not create a directory only to hide something in it.
        let directory = match parents::resolve(self.root, parent) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            directory => directory?,
        };
        drop(directory);
        let directory = self.parents.at(parent)?;
        let hidden = if name == OPAQUE {
            hide::lower_content(directory, parent, brought, self.limits.nesting)?
        } else if name.starts_with(AUFS) {
            Hidden::Nothing
        } else {
            let path = if parent.is_empty() { hidden_name.to_owned() } else { [parent, b"/", hidden_name].concat() };
            hide::lower(directory, hidden_name, &path, brought, self.limits.nesting)?
        };
        self.forget(hidden);
        Ok(())
    }

    fn forget(&mut self, hidden: Hidden) {
        if hidden == Hidden::Ways {
            self.parents.close();
        }
    }

    fn describe(&self, file: BorrowedFd<'_>, entry: &Entry, owner: Owner) -> io::Result<()> {
        // Without root, everything belongs to the caller and stays accessible: good enough to inspect an image.
        if self.is_root && (owner == Owner::Unknown || (entry.uid, entry.gid) != (0, 0)) {
            rustix::fs::fchown(file, Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid)))?;
        }
        let own = match (self.is_root, &entry.kind) {
            (true, _) => 0,
            (false, Kind::Directory) => 0o700,
            (false, _) => 0o400,
        };
        rustix::fs::fchmod(file, Mode::from_raw_mode((entry.mode & KEPT_MODE) | own))?;
        for (name, value) in &entry.xattrs {
            match rustix::fs::fsetxattr(file, name.as_slice(), value, XattrFlags::empty()) {
                // Not supported by every filesystem; no client needs them to run.
                Err(Errno::OPNOTSUPP) => {}
                result => result?,
            }
        }
        Ok(())
    }
}

/// The owner of a file before chown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// It was just created.
    Ours,
    Unknown,
}

/// `offset`: `None` at the end of the file.
fn write_part<R: BufRead>(file: &OwnedFd, offset: Option<u64>, length: u64, content: &mut Entries<'_, R>) -> Result<(), Failed> {
    let mut written = 0;
    while written < length {
        let part = content.content().map_err(Failed::Archive)?;
        let most = usize::try_from(length - written).map_or(part.len(), |left| left.min(part.len()));
        if most == 0 {
            return Err(Failed::Archive(Error::Malformed("it ends in the middle of a file")));
        }
        let result = match offset {
            None => rustix::io::write(file, &part[..most]),
            Some(offset) => rustix::io::pwrite(file, &part[..most], offset + written),
        };
        let count = match result {
            Err(Errno::INTR) => 0,
            count => count?,
        };
        content.consume(count);
        written += count as u64;
    }
    Ok(())
}

/// A directory's entry defines all of its attributes, so those it no longer has are removed.
fn remove_xattrs(directory: BorrowedFd<'_>) -> io::Result<()> {
    let mut names = [0u8; 4096];
    // Most have none; a list that does not fit was not written by us.
    let Ok(length) = rustix::fs::flistxattr(directory, &mut names[..]) else { return Ok(()) };
    for name in names[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")) {
        rustix::fs::fremovexattr(directory, name)?;
    }
    Ok(())
}

fn times(entry: &Entry) -> Timestamps {
    Timestamps { last_access: entry.mtime, last_modification: entry.mtime }
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}
