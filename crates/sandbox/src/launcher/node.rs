//! Creates and lists files, directories and links in the root that is being assembled. Paths are relative to the
//! working directory, which is that root.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid};
use shorefast_sys::{Result, call};

/// A directory entry.
#[derive(Debug)]
pub struct Entry {
    pub name: Vec<u8>,
    pub kind: EntryKind,
}

#[derive(Debug, PartialEq, Eq)]
pub enum EntryKind {
    Directory,
    File,
    Link(Vec<u8>),
}

impl EntryKind {
    /// `None`: special files are hidden from the client.
    pub fn of(file_type: FileType, leads_to: Option<Vec<u8>>) -> Option<Self> {
        match file_type {
            FileType::Symlink => leads_to.map(Self::Link),
            FileType::Directory => Some(Self::Directory),
            FileType::RegularFile => Some(Self::File),
            _ => None,
        }
    }
}

impl Entry {
    /// Whether it appears as a mount; links are recreated instead.
    pub fn is_mounted(&self) -> bool {
        !matches!(self.kind, EntryKind::Link(_))
    }
}

/// Lists a directory of the image.
pub fn entries(directory: &OwnedFd) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in call(|| "open(image)".into(), rustix::fs::Dir::read_from(directory))? {
        let entry = call(|| "getdents(image)".into(), entry)?;
        let name = entry.file_name().to_bytes().to_vec();
        if [&b"."[..], b".."].contains(&name.as_slice()) {
            continue;
        }
        let path = path(&name);
        let file_type = match entry.file_type() {
            FileType::Unknown => {
                let stat = call(|| format!("stat({path:?})"), rustix::fs::statat(directory, path, AtFlags::SYMLINK_NOFOLLOW))?;
                FileType::from_raw_mode(stat.st_mode)
            }
            known => known,
        };
        let leads_to = match file_type {
            FileType::Symlink => {
                Some(call(|| format!("readlink({path:?})"), rustix::fs::readlinkat(directory, path, Vec::new()))?.into_bytes())
            }
            _ => None,
        };
        entries.extend(EntryKind::of(file_type, leads_to).map(|kind| Entry { name, kind }));
    }
    Ok(entries)
}

pub fn give(path: &Path, owner: u32) -> Result<()> {
    let chown = rustix::fs::chownat(CWD, path, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)), AtFlags::SYMLINK_NOFOLLOW);
    call(|| format!("chown({path:?})"), chown)
}

/// Creates the missing parent directories of `path`.
pub fn make_parents(path: &Path) -> Result<()> {
    match path.parent().filter(|parent| !parent.is_dir()) {
        Some(parent) => call(|| format!("mkdir({parent:?})"), std::fs::create_dir_all(parent)),
        None => Ok(()),
    }
}

pub fn make_directory(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    call(|| format!("mkdir({path:?})"), rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)))
}

pub fn make_file(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = call(|| format!("open({path:?})"), rustix::fs::open(path, flags, Mode::from_raw_mode(mode)))?;
    call(|| format!("write({path:?})"), std::fs::File::from(file).write_all(content))
}

pub fn make_link(path: &Path, target: &Path) -> Result<()> {
    call(|| format!("symlink({target:?}, {path:?})"), rustix::fs::symlink(target, path))
}

pub fn path(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Relative to the root that is being assembled, which is the working directory.
pub fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}
