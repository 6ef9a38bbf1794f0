//! Where unpacked images live.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::reference::Reference;
use crate::unpack;

/// The image store below one directory.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// Nothing is created before it is needed.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The image's root filesystem, unpacked now if it has to be. Nobody writes to it afterwards.
    pub fn resolve(&self, reference: &Reference) -> Result<PathBuf, Error> {
        match reference {
            Reference::Directory(path) => check_root(path).map(|()| path.clone()),
            Reference::Tar(path) => self.unpacked(path),
        }
    }

    /// Removes what killed processes left half unpacked; what a live one is unpacking stays.
    pub fn discard_unfinished(&self) {
        let directory = self.root.join("rootfs");
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "lock")
                && let Ok(lock) = fs::File::open(&path)
                && rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
                && discard(&path.with_extension("part")).is_ok()
            {
                let _ = fs::remove_file(&path);
            }
        }
    }

    fn unpacked(&self, archive: &Path) -> Result<PathBuf, Error> {
        let open = |source| Error::Open { path: archive.to_owned(), source };
        let file = fs::File::open(archive).map_err(open)?;
        let key = key(archive, &file.metadata().map_err(open)?);
        let directory = self.root.join("rootfs");
        let place = directory.join(&key);
        if place.is_dir() {
            return Ok(place);
        }
        let store = |source| Error::Store { path: directory.clone(), source };
        fs::DirBuilder::new().recursive(true).mode(0o711).create(&directory).map_err(store)?;
        // One unpacks, the others wait for it; the lock goes with the process, however that ends.
        let lock_path = directory.join(format!("{key}.lock"));
        let lock = fs::File::create(&lock_path).map_err(store)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(|errno| store(errno.into()))?;
        if !place.is_dir() {
            let half = directory.join(format!("{key}.part"));
            discard(&half).map_err(store)?;
            fs::DirBuilder::new().mode(0o755).create(&half).map_err(store)?;
            let unpacked = unpack::into(archive, file, &half).and_then(|()| check_root(&half).map_err(|_| not_a_root(archive)));
            if let Err(error) = unpacked {
                let _ = discard(&half);
                let _ = fs::remove_file(&lock_path);
                return Err(error);
            }
            fs::rename(&half, &place).map_err(store)?;
        }
        let _ = fs::remove_file(&lock_path);
        Ok(place)
    }
}

fn not_a_root(archive: &Path) -> Error {
    Error::NotARoot { path: archive.to_owned(), problem: "the archive is empty" }
}

/// The archive as it is now: replaced or rewritten, it is another image.
fn key(archive: &Path, metadata: &fs::Metadata) -> String {
    let numbers =
        [metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime() as u64, metadata.mtime_nsec() as u64, metadata.ctime() as u64];
    let mut hash = Sha256::new();
    hash.update(archive.as_os_str().as_encoded_bytes());
    numbers.iter().for_each(|number| hash.update(number.to_le_bytes()));
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn check_root(path: &Path) -> Result<(), Error> {
    let wrong = |problem| Error::NotARoot { path: path.to_owned(), problem };
    let mut entries = match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Err(wrong("it is not a directory")),
        entries => entries.map_err(|source| Error::Open { path: path.to_owned(), source })?,
    };
    if entries.next().is_none() { Err(wrong("it is empty")) } else { Ok(()) }
}

/// Removes what an interrupted unpacking left. Only ever a `.part` directory of ours, in which
/// nobody mounts; still, a mount point in it stops this.
fn discard(half: &Path) -> io::Result<()> {
    let device = match fs::symlink_metadata(half) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        metadata => metadata?.dev(),
    };
    discard_on(half, device)
}

fn discard_on(directory: &Path, device: u64) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.dev() != device {
            return Err(io::Error::new(ErrorKind::CrossesDevices, format!("{:?} is on another filesystem", entry.path())));
        }
        if metadata.is_dir() { discard_on(&entry.path(), device)? } else { fs::remove_file(entry.path())? }
    }
    fs::remove_dir(directory)
}
