//! In: a root filesystem. Out: one tar archive of it, with the same bytes on every machine and at any time.
//!
//! Entries come in the order of their names. Directories have no time, because a directory that no layer names has the time of
//! its unpacking. The archive has everything that the store keeps of an image: files, directories, symbolic and hard links, `user.*` attributes.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tar::{Builder, EntryType, Header};

/// The space for a name or a link's target in a header; longer ones are stored before it.
const SHORT: usize = 100;
/// As when unpacking: see `layers`.
const KEPT_MODE: u32 = 0o1777;

pub fn write<W: Write>(root: &Path, to: W) -> io::Result<W> {
    let mut packing = Packing { archive: Builder::new(to), linked: HashMap::new() };
    packing.directory(root, b"")?;
    packing.archive.into_inner()
}

struct Packing<W: Write> {
    archive: Builder<W>,
    /// The first name of each file that has several.
    linked: HashMap<(u64, u64), Vec<u8>>,
}

impl<W: Write> Packing<W> {
    fn directory(&mut self, directory: &Path, name: &[u8]) -> io::Result<()> {
        let mut names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        for entry in names {
            let path = directory.join(&entry);
            let name = if name.is_empty() { entry.as_bytes().to_vec() } else { [name, b"/", entry.as_bytes()].concat() };
            self.entry(&path, &name)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, name: &[u8]) -> io::Result<()> {
        let metadata = fs::symlink_metadata(path)?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            self.append(path, &metadata, EntryType::Directory, &[name, b"/"].concat(), b"")?;
            return self.directory(path, name);
        }
        if kind.is_symlink() {
            let target = fs::read_link(path)?.into_os_string().into_vec();
            return self.append(path, &metadata, EntryType::Symlink, name, &target);
        }
        if !kind.is_file() {
            return Ok(());
        }
        if metadata.nlink() > 1 {
            let first = self.linked.entry((metadata.dev(), metadata.ino())).or_insert_with(|| name.to_vec()).clone();
            if first != name {
                return self.append(path, &metadata, EntryType::Link, name, &first);
            }
        }
        self.append(path, &metadata, EntryType::Regular, name, b"")
    }

    fn append(&mut self, path: &Path, metadata: &Metadata, kind: EntryType, name: &[u8], target: &[u8]) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(if kind == EntryType::Symlink { 0o777 } else { metadata.mode() & KEPT_MODE });
        header.set_uid(metadata.uid().into());
        header.set_gid(metadata.gid().into());
        header.set_mtime(if kind == EntryType::Directory { 0 } else { u64::try_from(metadata.mtime()).unwrap_or(0) });
        let size = if kind == EntryType::Regular { metadata.len() } else { 0 };
        header.set_size(size);
        let fields = header.as_gnu_mut().ok_or(io::ErrorKind::InvalidData)?;
        copy(name, &mut fields.name);
        copy(target, &mut fields.linkname);
        header.set_cksum();
        let mut extensions: Vec<(String, Vec<u8>)> = Vec::new();
        extensions.extend((name.len() > SHORT).then(|| ("path".to_owned(), name.to_vec())));
        extensions.extend((target.len() > SHORT).then(|| ("linkpath".to_owned(), target.to_vec())));
        if matches!(kind, EntryType::Regular | EntryType::Directory) {
            extensions.extend(attributes(path)?);
        }
        if !extensions.is_empty() {
            self.archive.append_pax_extensions(extensions.iter().map(|(key, value)| (key.as_str(), value.as_slice())))?;
        }
        if kind != EntryType::Regular {
            return self.archive.append(&header, io::empty());
        }
        let mut content = File::open(path)?.take(size);
        self.archive.append(&header, &mut content)?;
        if content.limit() > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{} became shorter", path.display())));
        }
        Ok(())
    }
}

/// The beginning of a text that does not fit: readers take the extension instead.
fn copy(text: &[u8], field: &mut [u8; SHORT]) {
    let length = text.len().min(SHORT);
    field[..length].copy_from_slice(&text[..length]);
}

/// As PAX writes them, in the order of their names.
fn attributes(path: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut names = vec![0; 64 * 1024];
    let length = match rustix::fs::llistxattr(path, &mut names[..]) {
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        length => length?,
    };
    let mut found = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")) {
        // PAX keys are text, and end at the first `=`.
        let Some(key) = std::str::from_utf8(name).ok().filter(|key| !key.contains('=')) else { continue };
        let mut value = vec![0; 64 * 1024];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..])?;
        value.truncate(length);
        found.push((format!("SCHILY.xattr.{key}"), value));
    }
    found.sort();
    Ok(found)
}
