//! An archive's entries, written below one directory and nowhere else.
//!
//! `tar` is only the parser. Every path is resolved by the kernel beneath the directory
//! (`RESOLVE_IN_ROOT`): a link that the archive made itself, however it points, leads nowhere
//! else. Absolute links are legal in a root filesystem and are stored as they are.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RawMode, ResolveFlags, Uid};
use tar::EntryType;

use crate::compression;
use crate::error::Error;

/// A root filesystem with a mount client is some hundred megabytes; a bomb is not.
const BYTES: u64 = 16 << 30;
const ENTRIES: u64 = 1_000_000;

pub fn into(archive: &Path, file: File, directory: &Path) -> Result<(), Error> {
    let unreadable = |source| Error::Archive { archive: archive.to_owned(), source };
    let root = rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let root = root.map_err(|errno| Error::Store { path: directory.to_owned(), source: errno.into() })?;
    let mut reader = tar::Archive::new(compression::reader(file).map_err(unreadable)?);
    let mut bytes = 0;
    for (number, entry) in reader.entries().map_err(unreadable)?.enumerate() {
        let mut entry = entry.map_err(unreadable)?;
        let too_large = |limit, what| Error::TooLarge { archive: archive.to_owned(), limit, what };
        bytes += entry.size();
        if bytes > BYTES {
            return Err(too_large(BYTES, "bytes"));
        }
        if number as u64 > ENTRIES {
            return Err(too_large(ENTRIES, "entries"));
        }
        let path = entry.path().map_err(unreadable)?.into_owned();
        place(&root, &path, &mut entry).map_err(|source| Error::Entry { archive: archive.to_owned(), entry: path, source })?;
    }
    Ok(())
}

fn place(root: &OwnedFd, path: &Path, entry: &mut tar::Entry<'_, impl io::Read>) -> io::Result<()> {
    let Some(path) = cleaned(path)? else {
        return Ok(());
    };
    let name = path.file_name().ok_or_else(|| invalid("no name"))?;
    let parent = directory(root, path.parent().unwrap_or(Path::new("")))?;
    let parent = parent.as_fd();
    // Set-uid means nothing below a nosuid mount, and should not wait in the store either.
    let mode = Mode::from_raw_mode((entry.header().mode()? & 0o1777) as RawMode);
    match entry.header().entry_type() {
        EntryType::Directory => {
            match rustix::fs::mkdirat(parent, name, mode) {
                Err(rustix::io::Errno::EXIST) => {}
                result => result?,
            }
            give(parent, name, entry)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::fchmod(rustix::fs::openat(parent, name, flags, Mode::empty())?, mode)?;
        }
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            remove(parent, name)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut file = File::from(rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o600))?);
            io::copy(entry, &mut file)?;
            give(parent, name, entry)?;
            rustix::fs::fchmod(&file, mode)?;
        }
        EntryType::Symlink => {
            remove(parent, name)?;
            let target = entry.link_name()?.ok_or_else(|| invalid("a symbolic link without a target"))?;
            rustix::fs::symlinkat(target.as_ref(), parent, name)?;
            give(parent, name, entry)?;
        }
        EntryType::Link => {
            let target = entry.link_name()?.ok_or_else(|| invalid("a hard link without a target"))?;
            let target = cleaned(&target)?.ok_or_else(|| invalid("a hard link to the root"))?;
            let from = directory(root, target.parent().unwrap_or(Path::new("")))?;
            let from_name = target.file_name().ok_or_else(|| invalid("a hard link to a directory"))?;
            remove(parent, name)?;
            rustix::fs::linkat(from, from_name, parent, name, AtFlags::empty())?;
        }
        // Devices come from the sandbox, FIFOs and the rest from nowhere.
        _ => {}
    }
    Ok(())
}

/// A path without dots. `None`: the root itself.
fn cleaned(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => result.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(invalid("its name leads upwards")),
        }
    }
    Ok((!result.as_os_str().is_empty()).then_some(result))
}

/// The directory at `path`, made if need be, resolved within `root`.
fn directory(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let resolve = |path: &Path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        rustix::fs::openat2(root, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)
    };
    match resolve(path) {
        Err(rustix::io::Errno::NOENT) => {}
        result => return Ok(result?),
    }
    let parent = directory(root, path.parent().unwrap_or(Path::new("")))?;
    let name = path.file_name().ok_or_else(|| invalid("no name"))?;
    rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
    Ok(resolve(path)?)
}

fn remove(parent: BorrowedFd<'_>, name: &std::ffi::OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(rustix::io::Errno::NOENT) => Ok(()),
        result => Ok(result?),
    }
}

fn give(parent: BorrowedFd<'_>, name: &std::ffi::OsStr, entry: &tar::Entry<'_, impl io::Read>) -> io::Result<()> {
    let id = |number: u64| u32::try_from(number).map_err(|_| invalid("an owner out of range"));
    let (uid, gid) = (id(entry.header().uid()?)?, id(entry.header().gid()?)?);
    let owner = rustix::fs::chownat(parent, name, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), AtFlags::SYMLINK_NOFOLLOW);
    match owner {
        // Without root, everything is ours; good enough for a look at an image.
        Err(rustix::io::Errno::PERM) if !rustix::process::geteuid().is_root() => Ok(()),
        result => Ok(result?),
    }
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Writes an archive of (type, name, link or content) and unpacks it.
    fn unpack(entries: &[(EntryType, &str, &str)]) -> (tempfile::TempDir, Result<(), Error>) {
        let directory = tempfile::tempdir().unwrap();
        let archive = directory.path().join("a.tar");
        let mut builder = tar::Builder::new(File::create(&archive).unwrap());
        for (kind, name, text) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o4755);
            header.set_uid(rustix::process::getuid().as_raw().into());
            header.set_gid(rustix::process::getgid().as_raw().into());
            let content = if matches!(kind, EntryType::Regular) { text.as_bytes() } else { b"" };
            header.set_size(content.len() as u64);
            // set_path refuses the very names that are to be tested.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            if content.is_empty() {
                header.as_old_mut().linkname[..text.len()].copy_from_slice(text.as_bytes());
            }
            header.set_cksum();
            builder.append(&header, content).unwrap();
        }
        builder.into_inner().unwrap();
        let root = directory.path().join("root");
        fs::create_dir(&root).unwrap();
        let result = into(&archive, File::open(&archive).unwrap(), &root);
        (directory, result)
    }

    #[test]
    fn unpacks_files_links_and_directories() {
        use EntryType::{Directory, Link, Regular, Symlink};
        let (directory, result) = unpack(&[
            (Directory, "./usr", ""),
            (Regular, "usr/bin/tool", "tool"),
            (Symlink, "bin", "/usr/bin"),
            (Link, "usr/bin/alias", "./usr/bin/tool"),
            (Regular, "bin/other", "through an absolute link, inside"),
        ]);
        result.unwrap();
        let root = directory.path().join("root");
        assert_eq!(fs::read(root.join("usr/bin/alias")).unwrap(), b"tool");
        assert_eq!(fs::read(root.join("usr/bin/other")).unwrap(), b"through an absolute link, inside");
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(root.join("usr/bin/tool")).unwrap().permissions());
        assert_eq!(mode & 0o7777, 0o755, "set-uid is stripped");
    }

    #[test]
    fn nothing_is_written_outside() {
        use EntryType::{Link, Regular, Symlink};
        type Row<'a> = (&'a str, &'a [(EntryType, &'a str, &'a str)]);
        let rows: &[Row<'_>] = &[
            ("a name that leads upwards", &[(Regular, "../evil", "x")]),
            ("a link upwards, then a file through it", &[(Symlink, "up", "../.."), (Regular, "up/evil", "x")]),
            ("a hard link to the outside", &[(Link, "evil", "../../etc/passwd")]),
            ("a hard link through a link", &[(Symlink, "up", ".."), (Link, "evil", "up/a.tar")]),
        ];
        for (name, entries) in rows {
            let (directory, _) = unpack(entries);
            let mut names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["a.tar", "root"], "{name}");
            assert!(!directory.path().join("root/evil").exists() || name.contains("then a file"), "{name}");
        }
    }

    #[test]
    fn garbage_is_no_archive() {
        let directory = tempfile::tempdir().unwrap();
        let archive = directory.path().join("a.tar");
        fs::write(&archive, vec![b'x'; 2048]).unwrap();
        let error = into(&archive, File::open(&archive).unwrap(), directory.path()).unwrap_err();
        assert!(matches!(error, Error::Archive { .. }), "{error}");
    }
}
