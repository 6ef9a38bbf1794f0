//! Named files, in a directory or in an archive, that are read in place.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use crate::compression::{self, Compression};
use crate::error::Error;
use crate::layers::{self, Limits, Member};
use crate::manifest::LONGEST;
use crate::source::Blob;

#[derive(Debug)]
pub(crate) struct Files {
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Directory,
    Archive { file: Arc<File>, members: HashMap<Vec<u8>, Member> },
}

impl Files {
    pub(crate) fn in_directory(path: &Path) -> Self {
        Self { path: path.to_owned(), place: Place::Directory }
    }

    pub(crate) fn in_archive(path: &Path, scratch: &Path) -> Result<Self, Error> {
        let unusable = |source| Error::Open { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(unusable)?;
        let mut start = [0; 6];
        let length = file.read(&mut start).map_err(unusable)?;
        file.rewind().map_err(unusable)?;
        if Compression::of(&start[..length]) != Compression::None {
            file = expanded(file, scratch).map_err(unusable)?;
        }
        let image = || path.display().to_string();
        let members = layers::members(&file).map_err(|source| Error::Layer { image: image(), layer: 0, source })?;
        Ok(Self { path: path.to_owned(), place: Place::Archive { file: Arc::new(file), members } })
    }

    pub(crate) fn open(&self, name: &str) -> Result<Blob, Error> {
        let unusable = |source| Error::Open { path: self.path.join(name), source };
        match &self.place {
            Place::Directory => File::open(self.path.join(name)).map(|file| Box::new(file) as Blob).map_err(unusable),
            Place::Archive { file, members } => {
                let (offset, size) = find(members, name).ok_or_else(|| unusable(ErrorKind::NotFound.into()))?;
                Ok(Box::new(Part { file: Arc::clone(file), position: offset, end: offset.saturating_add(size) }))
            }
        }
    }

    /// A whole metadata file.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let read = self.open(name)?.take(LONGEST + 1).read_to_end(&mut bytes);
        read.map_err(|source| Error::Open { path: self.path.join(name), source })?;
        if bytes.len() as u64 > LONGEST {
            return Err(Error::Open { path: self.path.join(name), source: io::Error::new(ErrorKind::InvalidData, "far too long") });
        }
        Ok(bytes)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        match &self.place {
            Place::Directory => self.path.join(name).exists(),
            Place::Archive { members, .. } => find(members, name).is_some(),
        }
    }
}

/// Old versions of Docker wrote a layer that occurs twice as a link to the first.
fn find(members: &HashMap<Vec<u8>, Member>, name: &str) -> Option<(u64, u64)> {
    match members.get(name.as_bytes())? {
        Member::File { offset, size } => Some((*offset, *size)),
        Member::Link(target) => match members.get(target)? {
            Member::File { offset, size } => Some((*offset, *size)),
            Member::Link(_) => None,
        },
    }
}

/// One file within an archive.
#[derive(Debug)]
struct Part {
    file: Arc<File>,
    position: u64,
    end: u64,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let most = left.min(buffer.len());
        let count = self.file.read_at(&mut buffer[..most], self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

/// The uncompressed archive, in an unnamed file that is freed when closed.
fn expanded(file: File, scratch: &Path) -> io::Result<File> {
    std::fs::create_dir_all(scratch)?;
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mut plain = File::from(rustix::fs::open(scratch.as_os_str().as_bytes(), flags, Mode::from_raw_mode(0o600))?);
    let (_, reader) = compression::reader(BufReader::with_capacity(256 * 1024, file))?;
    let limit = Limits::default().bytes;
    if io::copy(&mut reader.take(limit + 1), &mut plain)? > limit {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("it holds more than {limit} bytes")));
    }
    plain.seek(SeekFrom::Start(0))?;
    Ok(plain)
}
