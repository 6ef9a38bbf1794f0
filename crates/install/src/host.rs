//! The host to install on: this one, or one whose directories are visible below another directory, as in a container.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::error::{Error, failed};

/// All paths in this crate are the host's; they are translated to paths of this process only here.
#[derive(Clone, Debug)]
pub struct HostRoot(PathBuf);

/// The file at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    Directory,
    File { sha256: String },
    Link { to: PathBuf },
    Other,
}

impl HostRoot {
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// The path at which this process sees a path of the host.
    pub fn see(&self, path: &Path) -> PathBuf {
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    pub fn find(&self, path: &Path) -> Result<Found, Error> {
        let here = self.see(path);
        let kind = match fs::symlink_metadata(&here) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
            metadata => metadata.map_err(failed("look at", path))?.file_type(),
        };
        Ok(if kind.is_dir() {
            Found::Directory
        } else if kind.is_file() {
            Found::File { sha256: digest(&fs::read(&here).map_err(failed("read", path))?) }
        } else if kind.is_symlink() {
            Found::Link { to: fs::read_link(&here).map_err(failed("read", path))? }
        } else {
            Found::Other
        })
    }

    pub fn make_directory(&self, path: &Path) -> Result<(), Error> {
        fs::create_dir(self.see(path)).map_err(failed("create", path))
    }

    /// Atomic, also when it replaces an older file: running programs continue with the file that they were started from.
    pub fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
        let fresh = self.unfinished(path);
        let write = || {
            let mut file = File::create(&fresh)?;
            file.write_all(bytes)?;
            file.set_permissions(Permissions::from_mode(mode))?;
            file.sync_all()?;
            fs::rename(&fresh, self.see(path))
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&fresh);
            failed("write", path)(error)
        })
    }

    pub fn link(&self, path: &Path, to: &Path) -> Result<(), Error> {
        let fresh = self.unfinished(path);
        // A file that a killed process left would be in the way.
        let _ = fs::remove_file(&fresh);
        symlink(to, &fresh).and_then(|()| fs::rename(&fresh, self.see(path))).map_err(failed("link", path))
    }

    pub fn remove_file(&self, path: &Path) -> Result<(), Error> {
        gone(fs::remove_file(self.see(path))).map_err(failed("remove", path))
    }

    /// A directory that is not empty stays.
    pub fn remove_directory(&self, path: &Path) -> Result<(), Error> {
        match gone(fs::remove_dir(self.see(path))) {
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => Ok(()),
            other => other.map_err(failed("remove", path)),
        }
    }

    fn unfinished(&self, path: &Path) -> PathBuf {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.see(path).with_file_name(format!(".{name}.shorefast-unfinished"))
    }
}

pub fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn gone(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
