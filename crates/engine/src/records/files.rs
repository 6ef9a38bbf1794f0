//! Creating files atomically, in directories that may be removed concurrently when empty.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, OFlags};

use crate::error::Error;
use crate::past;
use crate::records::{Records, TRIES, make_directory};

impl Records {
    /// May be removed again at any moment, when empty.
    pub(crate) fn make_directory(&self, name: &str) -> io::Result<()> {
        make_directory(&self.directory.join(name))
    }

    /// A new file, readable by root only. Retries if its directory was just removed for being empty.
    pub(crate) fn create(&self, path: &Path, content: &[u8]) -> io::Result<fs::File> {
        for _ in 0..TRIES {
            match create_complete(path, content) {
                Err(error) if error.kind() == ErrorKind::NotFound => self.make_directory("starting")?,
                // What lives needs the room more than the stories of what is gone.
                Err(error) if error.kind() == ErrorKind::StorageFull && past::make_room(&self.directory) => {}
                result => return result,
            }
        }
        Err(ErrorKind::NotFound.into())
    }

    pub(crate) fn remove_empty_directories(&self) {
        // rmdir removes only empty directories; they are made again when needed. Each is tried: another process may have removed the inner
        // one already.
        let _ = fs::remove_dir(self.directory.join("starting"));
        let _ = fs::remove_dir(self.directory.join("by-mount"));
        let _ = fs::remove_dir(self.directory.join(past::DIRECTORY));
        let _ = fs::remove_dir(self.services());
        let _ = fs::remove_dir(&self.directory);
    }

    pub(crate) fn names(&self, directory: &Path) -> Result<Vec<String>, Error> {
        let unreadable = |source| Error::Record { path: directory.to_owned(), source };
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(unreadable)?,
        };
        let names: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned())).collect();
        Ok(names.map_err(unreadable)?.into_iter().filter(|name| !name.starts_with('.')).collect())
    }
}

/// The file appears with its complete content or not at all, even if we are killed.
fn create_complete(path: &Path, content: &[u8]) -> io::Result<fs::File> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mut file = fs::File::from(rustix::fs::open(directory, flags, rustix::fs::Mode::from_raw_mode(0o600))?);
    file.write_all(content)?;
    rustix::fs::linkat(&file, "", CWD, path, AtFlags::EMPTY_PATH)?;
    Ok(file)
}
