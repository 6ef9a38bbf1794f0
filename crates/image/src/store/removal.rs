//! Removing images: never one that a live mount uses or that a call is about to use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use serde::Serialize;

use crate::digest::Digest;
use crate::error::Error;
use crate::nearest::nearest;
use crate::reference::Reference;
use crate::store::lock::{self, Work};
use crate::store::{Store, builds, discard};

/// Which images live mounts use, and which mounts: known to the caller, not to the store.
pub type Users = BTreeMap<Digest, Vec<String>>;

/// Which unused images a collection removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Unnamed,
    /// Those that have a name, too.
    All,
}

/// What a collection removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Collected {
    pub images: Vec<Digest>,
    /// Bytes in the files of those images.
    pub bytes: u64,
    /// Abandoned downloads, and unpackings that were killed.
    pub leftovers: u64,
}

impl Store {
    /// Finds an image by reference, by digest, or by the first digits of one.
    pub fn named(&self, text: &str) -> Result<Digest, Error> {
        let names = self.names().all().map_err(|error| self.error(error))?;
        let name = text.parse::<Reference>().map(|reference| reference.to_string());
        if let Some(pointer) = names.iter().find(|pointer| name.as_ref().is_ok_and(|name| *name == pointer.name)) {
            return Ok(pointer.digest);
        }
        const SHORTEST: usize = 6;
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        let all = self.digests().map_err(|error| self.error(error))?;
        let mut fitting = all.into_iter().filter(|digest| digits.len() >= SHORTEST && digest.hex().starts_with(digits));
        match (fitting.next(), fitting.next()) {
            (Some(digest), None) => Ok(digest),
            _ => {
                let near = nearest(text, names.iter().map(|pointer| pointer.name.as_str())).map(str::to_owned);
                Err(Error::Unknown { name: text.to_owned(), near })
            }
        }
    }

    /// Removes the name, and the image with its last name. By digest, the image with all its names. `users` is called under the lock: no
    /// new users.
    pub fn remove<E: From<Error>>(&self, text: &str, users: impl FnOnce() -> Result<Users, E>) -> Result<(), E> {
        self.clear_away().map_err(|error| self.error(error))?;
        let held = lock::alone(&self.root.join("lock")).map_err(|error| self.error(error))?;
        let digest = self.named(text)?;
        let all = self.names().all().map_err(|error| self.error(error))?;
        let own: Vec<_> = all.into_iter().filter(|pointer| pointer.digest == digest).map(|pointer| pointer.name).collect();
        let name = text.parse::<Reference>().map(|reference| reference.to_string()).unwrap_or_default();
        let is_last = own.len() <= 1 || !own.contains(&name);
        if is_last && let Some(users) = users()?.remove(&digest) {
            return Err(Error::InUse { name: text.to_owned(), users }.into());
        }
        for pointer in own.iter().filter(|own| is_last || **own == name) {
            self.names().remove(pointer).map_err(|error| self.error(error))?;
        }
        if is_last {
            self.put_away(digest).map_err(|error| self.error(error))?;
        }
        self.remove_stale_builds(&BTreeSet::new()).map_err(|error| self.error(error))?;
        drop(held);
        self.clear_away().map_err(|error| self.error(error))?;
        Ok(())
    }

    /// Removes every image and name, for good. Refuses if there is a user.
    pub fn clear<E: From<Error>>(&self, users: impl FnOnce() -> Result<Users, E>) -> Result<(), E> {
        if !self.root.exists() {
            return Ok(());
        }
        let _held = lock::alone(&self.root.join("lock")).map_err(|error| self.error(error))?;
        if let Some((digest, users)) = users()?.into_iter().next() {
            return Err(Error::InUse { name: digest.to_string(), users }.into());
        }
        for name in ["names", "rootfs"] {
            discard::directory(&self.root.join(name)).map_err(|error| self.error(error))?;
        }
        Ok(())
    }

    /// Removes downloads that are kept for rebuilding images of packages; they are fetched again when needed. Returns the number of bytes.
    pub fn discard_downloads(&self) -> Result<u64, Error> {
        // The dates of archives are kept: they prevent a rollback by a mirror.
        let mut bytes = 0;
        for name in ["sha256", "index"] {
            let directory = self.root.join("packages").join(name);
            let sizes = fs::read_dir(&directory).into_iter().flatten().flatten();
            bytes += sizes.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum::<u64>();
            discard::directory(&directory).map_err(|error| self.error(error))?;
        }
        Ok(bytes)
    }

    /// Removes images that have neither a user nor, unless `extent` says so, a name, and leftovers of killed processes.
    pub fn collect<E: From<Error>>(&self, extent: Extent, users: impl FnOnce() -> Result<Users, E>) -> Result<Collected, E> {
        let mut collected = Collected::default();
        self.clear_away().map_err(|error| self.error(error))?;
        let held = lock::alone(&self.root.join("lock")).map_err(|error| self.error(error))?;
        let users = users()?;
        self.remove_stale_builds(&users.keys().copied().collect()).map_err(|error| self.error(error))?;
        let names = self.names().all().map_err(|error| self.error(error))?;
        let named: BTreeSet<_> = names.iter().map(|pointer| pointer.digest).collect();
        for digest in self.digests().map_err(|error| self.error(error))? {
            if extent == Extent::Unnamed && named.contains(&digest) || users.contains_key(&digest) {
                continue;
            }
            for pointer in names.iter().filter(|pointer| pointer.digest == digest) {
                self.names().remove(&pointer.name).map_err(|error| self.error(error))?;
            }
            collected.bytes += self.inspect(digest).map_or(0, |image| image.size);
            self.put_away(digest).map_err(|error| self.error(error))?;
            collected.images.push(digest);
        }
        self.put_away_derived().map_err(|error| self.error(error))?;
        drop(held);
        self.clear_away().map_err(|error| self.error(error))?;
        collected.leftovers = self.discard_unfinished();
        Ok(collected)
    }

    /// Removes leftovers of killed processes; work of a live one stays. Returns how many.
    pub fn discard_unfinished(&self) -> u64 {
        let mut count = 0;
        for entry in fs::read_dir(self.root.join("rootfs")).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "lock")
                && let Ok(Some(_work)) = Work::try_take(path.clone())
            {
                count += u64::from(path.with_extension("part").exists() && discard::directory(&path.with_extension("part")).is_ok());
                let _ = discard::directory(&path.with_extension("derived.part"));
            }
        }
        if let Ok(_held) = lock::alone(&self.root.join("lock")) {
            self.names().discard_unfinished();
        }
        let _ = self.clear_away();
        count + self.discard_blobs()
    }

    /// Removes downloads that were left behind, if no process is working.
    fn discard_blobs(&self) -> u64 {
        let working = fs::read_dir(self.root.join("rootfs")).into_iter().flatten().flatten();
        if working.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|end| end == "lock")) {
            return 0;
        }
        let mut count = 0;
        for entry in fs::read_dir(self.blobs()).into_iter().flatten().flatten() {
            count += u64::from(fs::remove_file(entry.path()).is_ok());
        }
        count
    }

    /// Builds for other machines whose name is gone, or stands for something else by now.
    fn remove_stale_builds(&self, used: &BTreeSet<Digest>) -> io::Result<()> {
        let all = self.names().all()?;
        let (stale, live): (Vec<_>, Vec<_>) = all.iter().partition(|pointer| builds::is_stale(pointer, &all));
        for pointer in stale {
            self.names().remove(&pointer.name)?;
            let digest = pointer.digest;
            if !used.contains(&digest) && !live.iter().any(|other| other.digest == digest) && self.rootfs(digest).is_dir() {
                self.put_away(digest)?;
            }
        }
        Ok(())
    }

    /// A rename, which is immediate; deleting takes longer and needs no lock.
    fn put_away(&self, digest: Digest) -> io::Result<()> {
        fs::rename(self.rootfs(digest), self.work(&digest.hex(), "gone"))?;
        let _ = fs::remove_file(self.description(digest));
        let _ = fs::rename(self.derived(digest), self.work(&digest.hex(), "derived.gone"));
        Ok(())
    }

    /// Removes derived files whose image was renamed by a process that was killed before it reached them, and those that earlier builds
    /// called `annex`.
    fn put_away_derived(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join("rootfs")).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_left_over = match path.extension().and_then(|end| end.to_str()) {
                Some("derived") => !path.with_extension("").exists(),
                Some("annex") => true,
                _ => false,
            };
            if is_left_over {
                fs::rename(&path, path.with_extension("derived.gone"))?;
            }
        }
        Ok(())
    }

    fn clear_away(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join("rootfs")).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "gone") {
                match discard::directory(&path) {
                    // Another process deletes it as well.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    result => result?,
                }
            }
        }
        Ok(())
    }
}
