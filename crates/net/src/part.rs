//! An incomplete file: `NAME.part` next to NAME, locked by the process that downloads it. It survives a cut connection, a kill and a
//! reboot, and becomes NAME only by a rename after its hash is right.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::error::Error;
use crate::hash::{Hash, Hasher};

#[derive(Debug)]
pub(crate) struct Part {
    file: File,
    path: PathBuf,
    target: PathBuf,
    expected: Option<Hash>,
    hasher: Option<Hasher>,
    written: u64,
    origin: Origin,
}

/// Bytes of one response are wrong together; bytes of several may each be right and not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    OneAnswer,
    Several,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) expected: Hash,
    pub(crate) found: Hash,
}

#[derive(Debug)]
pub(crate) enum Opened {
    /// Another process finished it while we waited.
    Whole,
    Unfinished(Box<Part>),
}

/// Whether the file exists with the right content; otherwise it is removed. Without a hash, existence is enough.
pub(crate) fn is_whole(target: &Path, size: Option<u64>, expected: Option<Hash>) -> Result<bool, Error> {
    let failed = |source| Error::File { path: target.to_owned(), source };
    let mut file = match File::open(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file.map_err(failed)?,
    };
    let right_size = size.is_none_or(|size| file.metadata().is_ok_and(|there| there.len() == size));
    let right = match expected {
        Some(expected) if right_size => {
            let mut hasher = expected.hasher();
            feed(&mut file, |data| hasher.update(data)).map_err(failed)?;
            hasher.finish() == expected
        }
        _ => right_size,
    };
    if !right {
        fs::remove_file(target).map_err(failed)?;
    }
    Ok(right)
}

fn feed(file: &mut File, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            n => take(&buffer[..n]),
        }
    }
}

impl Part {
    /// Waits for another process that downloads the same file. The part left by an earlier attempt is kept only if there is a hash to
    /// verify it.
    pub(crate) fn open(target: &Path, expected: Option<Hash>, limit: u64) -> Result<Opened, Error> {
        let mut name = target.as_os_str().to_owned();
        name.push(".part");
        let path = PathBuf::from(name);
        let failed = |source| Error::File { path: path.clone(), source };
        let file = locked(&path).map_err(failed)?;
        if target.exists() {
            let _ = fs::remove_file(&path);
            return Ok(Opened::Whole);
        }
        let hasher = expected.map(|hash| hash.hasher());
        let mut part =
            Self { file, path: path.clone(), target: target.to_owned(), expected, hasher, written: 0, origin: Origin::OneAnswer };
        let length = part.file.metadata().map_err(failed)?.len();
        if length > 0 && length <= limit && expected.is_some() {
            part.take_up().map_err(failed)?;
        } else {
            part.start_over()?;
        }
        Ok(Opened::Unfinished(Box::new(part)))
    }

    fn take_up(&mut self) -> io::Result<()> {
        let (hasher, written) = (&mut self.hasher, &mut self.written);
        feed(&mut self.file, |data| {
            *written += data.len() as u64;
            if let Some(hasher) = hasher {
                hasher.update(data);
            }
        })?;
        self.origin = Origin::Several;
        Ok(())
    }

    pub(crate) fn start_over(&mut self) -> Result<(), Error> {
        self.file.set_len(0).and_then(|()| self.file.rewind()).map_err(|source| self.failed(source))?;
        self.hasher = self.expected.map(|hash| hash.hasher());
        self.written = 0;
        self.origin = Origin::OneAnswer;
        Ok(())
    }

    /// What follows comes from another response than the existing part.
    pub(crate) fn goes_on(&mut self) {
        self.origin = Origin::Several;
    }

    pub(crate) fn append(&mut self, data: &[u8]) -> Result<(), Error> {
        self.file.write_all(data).map_err(|source| self.failed(source))?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(data);
        }
        self.written += data.len() as u64;
        Ok(())
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// The actual hash, if it differs from the expected one.
    pub(crate) fn mismatch(&self) -> Option<Mismatch> {
        let expected = self.expected?;
        let found = self.hasher.clone()?.finish();
        (found != expected).then_some(Mismatch { expected, found })
    }

    /// From now on the file has its final name, and is not written any more.
    pub(crate) fn finish(self) -> Result<(), Error> {
        fs::rename(&self.path, &self.target).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::File { path: self.path.clone(), source }
    }
}

/// The file at `path`, locked. The previous holder of the lock may have renamed it: then the path names another file.
fn locked(path: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
        let ours = file.metadata()?;
        match fs::metadata(path) {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => return Ok(file),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unfinished(target: &Path, expected: Option<Hash>) -> Box<Part> {
        match Part::open(target, expected, 100).unwrap() {
            Opened::Unfinished(part) => part,
            Opened::Whole => panic!("it is not whole"),
        }
    }

    #[test]
    fn takes_up_what_a_hash_can_judge() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("blob");
        let expected = Some(Hash::sha256_of(b"one two"));
        unfinished(&target, expected).append(b"one ").unwrap();
        let mut part = unfinished(&target, expected);
        assert_eq!((part.written(), part.origin()), (4, Origin::Several));
        part.append(b"two").unwrap();
        assert_eq!(part.mismatch(), None);
        part.finish().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"one two");
        assert!(matches!(Part::open(&target, expected, 100).unwrap(), Opened::Whole));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else stays");
    }

    #[test]
    fn starts_over_where_nothing_can_judge() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("blob");
        for expected in [None, Some(Hash::sha256_of(b"x"))] {
            fs::write(directory.path().join("blob.part"), [b'x'; 101]).unwrap();
            assert_eq!(unfinished(&target, expected).written(), 0, "{expected:?}");
        }
        fs::write(directory.path().join("blob.part"), b"abc").unwrap();
        assert_eq!(unfinished(&target, None).written(), 0);
    }

    #[test]
    fn a_file_under_the_name_is_what_it_has_to_be_or_goes() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("blob");
        let right = Some(Hash::sha256_of(b"right"));
        assert!(!is_whole(&target, Some(5), right).unwrap());
        fs::write(&target, b"right").unwrap();
        assert!(is_whole(&target, Some(5), right).unwrap());
        for wrong in [b"".as_slice(), b"wrong"] {
            fs::write(&target, wrong).unwrap();
            assert!(!is_whole(&target, Some(5), right).unwrap());
            assert!(!target.exists());
        }
    }

    #[test]
    fn wrong_data_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let mut part = unfinished(&directory.path().join("blob"), Some(Hash::sha256_of(b"right")));
        part.append(b"wrong").unwrap();
        assert_eq!(part.mismatch(), Some(Mismatch { expected: Hash::sha256_of(b"right"), found: Hash::sha256_of(b"wrong") }));
        part.start_over().unwrap();
        part.append(b"right").unwrap();
        assert_eq!(part.mismatch(), None);
    }
}
