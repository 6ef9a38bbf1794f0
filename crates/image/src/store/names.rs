//! Names of images: one small file each, with the digest that a name refers to now.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::store::lock;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub(crate) name: String,
    pub(crate) digest: Digest,
    /// Of the file that it was made from: once that has changed, the name is stale.
    pub(crate) fingerprint: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Names {
    directory: PathBuf,
}

impl Names {
    pub(crate) fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// `None` also for a file that a power failure left empty: it is created again.
    pub(crate) fn get(&self, name: &str) -> io::Result<Option<Pointer>> {
        match fs::read(self.directory.join(file_name(name))) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            bytes => Ok(parse(&bytes?).filter(|pointer| pointer.name == name)),
        }
    }

    pub(crate) fn all(&self) -> io::Result<Vec<Pointer>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut pointers = Vec::new();
        for entry in entries {
            let entry = entry?;
            if !entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
                pointers.extend(fs::read(entry.path()).ok().and_then(|bytes| parse(&bytes)));
            }
        }
        pointers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(pointers)
    }

    /// Everything that can fail for lack of space happens here.
    pub(crate) fn prepare(&self, pointer: &Pointer) -> io::Result<Prepared> {
        lock::make_directory(&self.directory)?;
        let path = self.directory.join(file_name(&pointer.name));
        let unique = format!("{UNFINISHED}{}-{:?}", std::process::id(), std::thread::current().id());
        let prepared = Prepared { unfinished: self.directory.join(unique), path, done: false };
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&prepared.unfinished)?;
        file.write_all(format!("{}\n{}\n{}", pointer.digest, pointer.fingerprint, pointer.name).as_bytes())?;
        Ok(prepared)
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.directory.join(file_name(name)))
    }

    /// Removes leftovers of killed processes. Call it only while no other process is working.
    pub(crate) fn discard_unfinished(&self) {
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// A pointer that is not visible yet. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Prepared {
    unfinished: PathBuf,
    path: PathBuf,
    done: bool,
}

impl Prepared {
    pub(crate) fn commit(mut self) -> io::Result<()> {
        fs::rename(&self.unfinished, &self.path)?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

const UNFINISHED: &str = ".new-";
/// A file name has 255 bytes at most.
const LONGEST: usize = 200;

fn parse(bytes: &[u8]) -> Option<Pointer> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.splitn(3, '\n');
    let (digest, fingerprint, name) = (lines.next()?, lines.next()?, lines.next()?);
    Some(Pointer { name: name.to_owned(), digest: digest.parse().ok()?, fingerprint: fingerprint.to_owned() })
}

/// Readable if possible; a long one by its digest.
fn file_name(name: &str) -> PathBuf {
    let mut escaped = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b':' => escaped.push(char::from(byte)),
            b'.' if !escaped.is_empty() => escaped.push('.'),
            _ => escaped.push_str(&format!("%{byte:02x}")),
        }
    }
    if escaped.len() > LONGEST {
        escaped = format!("%{}", Digest::of(name.as_bytes()).hex());
    }
    Path::new(&escaped).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_what_was_written_last() {
        let directory = tempfile::tempdir().unwrap();
        let names = Names::at(directory.path().join("names"));
        let long = format!("tar:/{}", "x/".repeat(500));
        for name in ["registry.example:5000/a/b:1", "tar:/srv/a\nb.tar", "..", ".", "%2f", "/", long.as_str()] {
            assert_eq!(names.get(name).unwrap(), None);
            for content in ["old", "new"] {
                let pointer = Pointer { name: name.to_owned(), digest: Digest::of(content.as_bytes()), fingerprint: String::new() };
                names.prepare(&pointer).unwrap().commit().unwrap();
                assert_eq!(names.get(name).unwrap(), Some(pointer), "{name:?}");
            }
        }
        assert_eq!(names.all().unwrap().len(), 7);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no name leads out of the directory");
    }

    #[test]
    fn what_is_not_committed_never_was() {
        let directory = tempfile::tempdir().unwrap();
        let names = Names::at(directory.path().to_owned());
        drop(names.prepare(&Pointer { name: "a".into(), digest: Digest::of(b""), fingerprint: String::new() }).unwrap());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
