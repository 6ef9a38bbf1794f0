//! All volumes, as files below one directory of root's. They survive restarts of this process, the container engine and the machine.
//!
//! ```text
//! NAME/                locked (flock) by the process that changes the volume
//! NAME/volume.json     its options; without this file there is no such volume
//! NAME/users-BOOT/ID   its users since this boot
//! NAME/error           the last error
//! NAME/record          the id of the engine's record of its mount
//! NAME/mount           where it is mounted. Never looked into: its server may not answer
//! ```

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use shorefast_engine::publish::Below;

use crate::error::Error;
use crate::options::Options;
use crate::users::{Users, gone};

const FILE: &str = "volume.json";
const NEW_FILE: &str = ".volume.json";
const ERROR: &str = "error";
const RECORD: &str = "record";
const MOUNT: &str = "mount";

/// Contains no secret: [`options::check`](crate::options::check) refuses those.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    pub options: Options,
    pub created: SystemTime,
    /// As planned when it was created, for display only.
    pub client: String,
    pub image: String,
}

#[derive(Clone, Debug)]
pub struct Volumes {
    directory: PathBuf,
}

impl Volumes {
    pub fn below(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub fn place(&self, name: &str) -> Below {
        Below { root: self.directory.clone(), inside: Path::new(name).join(MOUNT) }
    }

    /// `None`: there is no such volume.
    pub fn read(&self, name: &str) -> Result<Option<Volume>, Error> {
        let path = self.directory.join(name).join(FILE);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| Error::state(&path)(error.into())),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(Error::state(&path)(error)),
        }
    }

    /// Sorted by name. A volume whose file is damaged is left out: its error is reported when it is requested.
    pub fn all(&self) -> Result<Vec<(String, Volume)>, Error> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            entries => entries.map_err(Error::state(&self.directory))?,
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut all: Vec<_> = names.filter_map(|name| self.read(&name).ok().flatten().map(|volume| (name, volume))).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(all)
    }

    pub fn users(&self, name: &str) -> Users {
        Users::of(&self.directory.join(name), shorefast_sys::process::boot_id())
    }

    pub fn last_error(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.directory.join(name).join(ERROR)).ok()
    }

    /// The record of its last mount. The caller has to check whether that mount still exists.
    pub fn record(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.directory.join(name).join(RECORD)).ok()
    }

    /// `None`: another process holds it.
    pub fn try_lock(&self, name: &str, absent: Absent) -> Result<Option<Locked>, Error> {
        let path = self.directory.join(name);
        let failed = |errno: Errno| Error::state(&path)(errno.into());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match rustix::fs::open(&path, flags, Mode::empty()) {
            Err(Errno::NOENT) if absent == Absent::Made => {
                self.make(&path).map_err(Error::state(&path))?;
                return Ok(None);
            }
            Err(Errno::NOENT) => return Err(Error::UnknownVolume(name.to_owned())),
            directory => File::from(directory.map_err(failed)?),
        };
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            locked => locked.map_err(failed)?,
        }
        // The previous holder may have removed it.
        let held = directory.metadata().map_err(Error::state(&path))?;
        let is_current = fs::symlink_metadata(&path).is_ok_and(|now| (now.dev(), now.ino()) == (held.dev(), held.ino()));
        Ok(is_current.then(|| Locked { volumes: self.clone(), name: name.to_owned(), path, directory }))
    }

    fn make(&self, path: &Path) -> io::Result<()> {
        // The parent directory is shared: images are there, too.
        self.directory.parent().map_or(Ok(()), fs::create_dir_all)?;
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }
}

/// What to do if a volume's directory does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    Made,
    Refused,
}

/// A volume that no other process changes. Dropped: others may.
#[derive(Debug)]
pub struct Locked {
    volumes: Volumes,
    pub name: String,
    path: PathBuf,
    directory: File,
}

impl Locked {
    pub fn read(&self) -> Result<Option<Volume>, Error> {
        self.volumes.read(&self.name)
    }

    pub fn users(&self) -> Users {
        self.volumes.users(&self.name)
    }

    pub fn place(&self) -> Below {
        self.volumes.place(&self.name)
    }

    /// Atomic and durable.
    pub fn write(&self, volume: &Volume) -> Result<(), Error> {
        let write = || {
            let new = self.path.join(NEW_FILE);
            let mut file = File::create(&new)?;
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
            file.write_all(&serde_json::to_vec(volume)?)?;
            file.sync_all()?;
            fs::rename(&new, self.path.join(FILE))?;
            self.directory.sync_all()?;
            File::open(&self.volumes.directory)?.sync_all()
        };
        write().map_err(Error::state(&self.path))
    }

    /// For display only: an error while writing it is ignored.
    pub fn set_error(&self, error: Option<&str>) {
        let path = self.path.join(ERROR);
        let _ = match error {
            Some(text) => fs::write(&path, text),
            None => gone(fs::remove_file(&path)),
        };
    }

    pub fn record(&self) -> Option<String> {
        self.volumes.record(&self.name)
    }

    /// Without it, a worker searches for the mount, which is slower but gives the same result.
    pub fn set_record(&self, id: &str) {
        let _ = fs::write(self.path.join(RECORD), id);
    }

    /// Removes the volume, which must be unmounted. Removes only our own files and empty directories.
    pub fn forget(&self) -> Result<(), Error> {
        let forget = || {
            // First the file without which it is no volume.
            gone(fs::remove_file(self.path.join(FILE)))?;
            for file in [NEW_FILE, ERROR, RECORD] {
                gone(fs::remove_file(self.path.join(file)))?;
            }
            self.users().forget()?;
            gone(fs::remove_dir(&self.path))
        };
        forget().map_err(Error::state(&self.path))
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(device: &str) -> Volume {
        let options = [("type", "sshfs"), ("device", device)].map(|(key, value)| (key.to_owned(), value.to_owned()));
        Volume { options: options.into(), created: SystemTime::UNIX_EPOCH, client: "sshfs".to_owned(), image: "x".to_owned() }
    }

    fn lock(volumes: &Volumes, name: &str) -> Locked {
        std::iter::repeat_with(|| volumes.try_lock(name, Absent::Made).unwrap()).flatten().next().unwrap()
    }

    #[test]
    fn a_volume_is_there_from_its_file_on_and_goes_without_a_trace() {
        let directory = tempfile::tempdir().unwrap();
        let volumes = Volumes::below(directory.path().join("docker"));
        assert_eq!(volumes.all().unwrap(), []);
        assert!(matches!(volumes.try_lock("a", Absent::Refused), Err(Error::UnknownVolume(_))));
        let locked = lock(&volumes, "a");
        assert!(volumes.try_lock("a", Absent::Refused).unwrap().is_none(), "locked twice");
        assert_eq!(volumes.read("a").unwrap(), None);
        locked.write(&volume("h:/x")).unwrap();
        locked.users().add("id").unwrap();
        locked.set_error(Some("it failed"));
        locked.set_record("m0000-1");
        drop(locked);
        assert_eq!(volumes.all().unwrap(), [("a".to_owned(), volume("h:/x"))]);
        assert_eq!((volumes.users("a").count(), volumes.last_error("a").as_deref()), (1, Some("it failed")));
        let mode = |path: &str| fs::metadata(directory.path().join("docker").join(path)).unwrap().mode() & 0o777;
        assert_eq!((mode("."), mode("a"), mode("a/volume.json")), (0o700, 0o700, 0o600));
        // Left by a killed process.
        fs::write(directory.path().join("docker/a/.volume.json"), "{").unwrap();
        let locked = lock(&volumes, "a");
        let other = volumes.clone();
        locked.forget().unwrap();
        assert!(!directory.path().join("docker/a").exists());
        // A process that waited for the lock does not get the removed directory.
        drop(locked);
        assert!(matches!(other.try_lock("a", Absent::Refused), Err(Error::UnknownVolume(_))));
    }

    #[test]
    fn one_damaged_file_hides_no_other_volume() {
        let directory = tempfile::tempdir().unwrap();
        let volumes = Volumes::below(directory.path().to_owned());
        lock(&volumes, "good").write(&volume("x")).unwrap();
        drop(lock(&volumes, "bad"));
        fs::write(directory.path().join("bad/volume.json"), "{").unwrap();
        fs::write(directory.path().join("stranger"), "").unwrap();
        assert_eq!(volumes.all().unwrap().len(), 1);
        assert!(matches!(volumes.read("bad"), Err(Error::State { .. })));
    }

    #[test]
    fn what_lies_below_the_mount_stays() {
        let directory = tempfile::tempdir().unwrap();
        let volumes = Volumes::below(directory.path().to_owned());
        let locked = lock(&volumes, "a");
        fs::create_dir(directory.path().join("a/mount")).unwrap();
        fs::write(directory.path().join("a/mount/precious"), "").unwrap();
        assert!(locked.forget().is_err());
        assert!(directory.path().join("a/mount/precious").exists());
    }
}
