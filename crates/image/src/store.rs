//! In: references. Out: unpacked images.
//!
//! ```text
//! rootfs/HEX          an image's root filesystem, by its digest; never written to
//! rootfs/HEX.json     its metadata
//! rootfs/HEX.derived  files derived from it, made once for all its mounts; it may be missing
//! rootfs/KEY.part     an image that is being unpacked, under the lock KEY.lock; KEY.derived.part goes with it
//! rootfs/HEX.gone     an image that is being removed
//! names/NAME          which digest a name stands for now
//! blobs/              downloads, complete or partial
//! lock                shared: about to use an image; exclusive: removing images
//! ```
//! Atomic under kills at any moment: `rootfs/HEX` is complete or does not exist.

mod current;
mod given;
mod removal;
mod builds;
mod names;
pub mod discard;
mod lock;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use shorefast_net::{Progress, Silent};
use shorefast_packages::Wishes;

use crate::archive;
use crate::digest::Digest;
use crate::error::Error;
use crate::layers::Limits;
use crate::packaged::{self, Means};
use crate::reference::Reference;
use crate::registry::Name;
use crate::remote;
use crate::signature::{Keys, Problem, Signed};
pub use crate::source::Network;
use crate::source::Source;
pub use crate::store::current::{Change, Newest};
pub use crate::store::lock::Held;
use crate::store::lock::Work;
use crate::store::names::{Names, Pointer};
pub use crate::store::removal::{Collected, Extent, Users};

/// The image store below one directory.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    limits: Limits,
    progress: Watcher,
    derive: Option<Derive>,
}

/// Fills an empty directory with what can be derived from an image's root filesystem once, instead of for each mount.
pub type Derive = fn(rootfs: &Path, derived: &Path) -> io::Result<()>;

/// Receives the progress of downloads.
#[derive(Clone)]
struct Watcher(Arc<dyn Progress>);

impl std::fmt::Debug for Watcher {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Watcher")
    }
}

/// An image to use. It is not removed while `held` is; a longer use is reported to the code that removes images (see `removal::Users`), and
/// `held` is dropped.
#[derive(Debug)]
pub struct Resolved {
    pub rootfs: PathBuf,
    /// The directory of the files derived from it, if it has one.
    pub derived: Option<PathBuf>,
    /// None for a directory that is used in place.
    pub digest: Option<Digest>,
    pub held: Option<Held>,
}

/// What the store knows of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub digest: Digest,
    /// The reference that it was first made from.
    pub source: String,
    /// Bytes in its files.
    pub size: u64,
    pub entries: u64,
    /// Devices and other entries that were left out.
    pub ignored: u64,
    /// Seconds since 1970.
    pub created: u64,
    /// Of an image of packages: their versions. Images of earlier versions of Shorefast do not say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
    /// The keys that have signed it, as far as that was checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<Signed>,
}

/// Which version of an image is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// The version that is in the store under the name.
    Any,
    /// What the name refers to at its origin now.
    Newest,
}

impl Store {
    /// Nothing is created before it is needed.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), limits: Limits::default(), progress: Watcher(Arc::new(Silent)), derive: None }
    }

    /// Its directory; others keep files next to the images.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    pub fn with_progress(self, progress: Arc<dyn Progress>) -> Self {
        Self { progress: Watcher(progress), ..self }
    }

    pub fn with_derived(self, make: Derive) -> Self {
        Self { derive: Some(make), ..self }
    }

    /// The image's root filesystem if it is in the store and, where `keys` are given, known to be signed by one of each under this name; a few
    /// system calls, and never the network.
    pub fn resolve(&self, reference: &Reference, keys: &[Keys]) -> Result<Option<Resolved>, Error> {
        let resolved = self.present(reference)?;
        let Some(name) = name_to_verify(reference, keys)? else { return Ok(resolved) };
        let Some(resolved) = resolved else { return Ok(None) };
        let signatures = resolved.digest.map_or_else(|| Ok(Vec::new()), |digest| self.inspect(digest).map(|image| image.signatures))?;
        let is_signed = |keys: &Keys| signatures.iter().any(|signed| keys.accept(signed, &name));
        Ok(keys.iter().all(is_signed).then_some(resolved))
    }

    fn present(&self, reference: &Reference) -> Result<Option<Resolved>, Error> {
        if let Reference::Directory(path) = reference {
            return check_root(path).map(|()| Some(Resolved { rootfs: path.clone(), derived: None, digest: None, held: None }));
        }
        let held = lock::shared(&self.root.join("lock")).map_err(|error| self.error(error))?;
        let Some(pointer) = self.names().get(&reference.to_string()).map_err(|error| self.error(error))? else {
            return Ok(None);
        };
        // If the archive is gone since it was imported, the image is still used.
        if fingerprint(reference).is_some_and(|now| now != pointer.fingerprint) {
            return Ok(None);
        }
        Ok(self.resolved(pointer.digest, held))
    }

    /// The same by digest: not what the name stands for now.
    pub fn resolve_digest(&self, digest: Digest) -> Result<Option<Resolved>, Error> {
        let held = lock::shared(&self.root.join("lock")).map_err(|error| self.error(error))?;
        Ok(self.resolved(digest, held))
    }

    fn resolved(&self, digest: Digest, held: Held) -> Option<Resolved> {
        let (rootfs, derived) = (self.rootfs(digest), Some(self.derived(digest)));
        rootfs.is_dir().then_some(Resolved { rootfs, derived, digest: Some(digest), held: Some(held) })
    }

    /// The image's root filesystem, fetched now if necessary: by one process, while the others wait. An image
    /// in the store that was not verified with these `keys` is requested again.
    pub fn obtain(&self, reference: &Reference, keys: &[Keys], network: Network) -> Result<Resolved, Error> {
        // It may be removed between its arrival and our lookup.
        const TRIES: u32 = 3;
        for _ in 0..TRIES {
            if let Some(resolved) = self.resolve(reference, keys)? {
                return Ok(resolved);
            }
            self.get(reference, &reference.to_string(), Wanted::Any, keys, network)?;
        }
        Err(Error::Absent { reference: reference.to_string() })
    }

    /// Fetches the image again. From then on its name, or `name` if given, refers to the new one. Fails if it is not signed by one key of each of
    /// the `keys`.
    pub fn pull(&self, reference: &Reference, name: Option<&Reference>, keys: &[Keys]) -> Result<Digest, Error> {
        if let Reference::Directory(path) = reference {
            let problem = "a directory is used where it is, and need not be imported".to_owned();
            return Err(Error::Malformed { image: format!("dir:{}", path.display()), problem });
        }
        name_to_verify(reference, keys)?;
        self.get(reference, &name.unwrap_or(reference).to_string(), Wanted::Newest, keys, Network::Allowed)
    }

    pub fn inspect(&self, digest: Digest) -> Result<Image, Error> {
        let path = self.description(digest);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(Error::Unknown { name: digest.to_string(), near: None }),
            bytes => bytes.map_err(|error| self.error(error))?,
        };
        serde_json::from_slice(&bytes).map_err(|error| self.error(error.into()))
    }

    /// Every image with its names; some have several, some have none.
    pub fn list(&self) -> Result<Vec<(Image, Vec<String>)>, Error> {
        let _held = lock::shared(&self.root.join("lock")).map_err(|error| self.error(error))?;
        let names = self.names().all().map_err(|error| self.error(error))?;
        let named = |digest| names.iter().filter(|pointer| pointer.digest == digest).map(|pointer| pointer.name.clone()).collect();
        let mut images = Vec::new();
        for digest in self.digests().map_err(|error| self.error(error))? {
            images.push((self.inspect(digest)?, named(digest)));
        }
        Ok(images)
    }

    /// Where downloads are kept until they are unpacked.
    pub fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    fn get(&self, reference: &Reference, name: &str, wanted: Wanted, keys: &[Keys], network: Network) -> Result<Digest, Error> {
        // The lock is released with the process, however it ends.
        let key = format!("name-{}", &Digest::of(name.as_bytes()).hex()[..32]);
        let _work = Work::wait(self.work(&key, "lock")).map_err(|error| self.error(error))?;
        if wanted == Wanted::Any
            && let Some(Resolved { digest: Some(digest), .. }) = self.resolve(reference, keys)?
        {
            return Ok(digest);
        }
        let fingerprint = fingerprint(reference).unwrap_or_default();
        let source = self.find(reference, keys, network)?;
        self.take(source, reference, &key, name, fingerprint)
    }

    /// What is needed to fetch packages for this store.
    pub fn means(&self, network: Network) -> Means {
        Means { cache: self.root.join("packages"), network, progress: Arc::clone(&self.progress.0) }
    }

    /// Unpacks the source, unless the image is in the store under another name.
    fn take(&self, source: Source, reference: &Reference, key: &str, name: &str, fingerprint: String) -> Result<Digest, Error> {
        let pointer = |digest| Pointer { name: name.to_owned(), digest, fingerprint: fingerprint.clone() };
        match source.digest {
            None => self.unpack(source, reference, key, pointer),
            Some(digest) => {
                let key = digest.hex();
                let _work = Work::wait(self.work(&key, "lock")).map_err(|error| self.error(error))?;
                if self.rootfs(digest).is_dir() {
                    let _held = lock::shared(&self.root.join("lock")).map_err(|error| self.error(error))?;
                    // Unless it was removed before we held the lock.
                    if self.rootfs(digest).is_dir() {
                        self.remember(digest, source.signatures)?;
                        self.point(&pointer(digest)).map_err(|error| self.error(error))?;
                        return Ok(digest);
                    }
                }
                self.unpack(source, reference, &key, pointer)
            }
        }
    }

    /// Call it under the lock of the digest's key.
    fn remember(&self, digest: Digest, signatures: Vec<Signed>) -> Result<(), Error> {
        let mut image = self.inspect(digest)?;
        let new: Vec<_> = signatures.into_iter().filter(|signed| !image.signatures.contains(signed)).collect();
        if new.is_empty() {
            return Ok(());
        }
        image.signatures.extend(new);
        let written = serde_json::to_vec(&image).map_err(io::Error::from).and_then(|bytes| write_whole(&self.description(digest), &bytes));
        written.map_err(|error| self.error(error))
    }

    fn find(&self, reference: &Reference, keys: &[Keys], network: Network) -> Result<Source, Error> {
        let absent = || Error::Absent { reference: reference.to_string() };
        match (archive::open(reference, &self.blobs())?, reference) {
            (Some(source), _) => Ok(source),
            (None, _) if network == Network::Forbidden => match keys.first() {
                Some(keys) if self.present(reference)?.is_some() => Err(unsigned(reference, keys, Problem::Offline)),
                _ => Err(absent()),
            },
            (None, Reference::Registry(name)) => remote::open(name, keys, &self.blobs(), &self.progress.0),
            (None, Reference::Packages(_)) => {
                let spec = reference.to_string().parse().map_err(shorefast_packages::Error::from)?;
                let means = self.means(network);
                packaged::source(packaged::lock(&spec, &Wishes::default(), &means)?, means)
            }
            (None, _) => Err(absent()),
        }
    }

    /// Call it under the lock of `key`.
    fn unpack(&self, source: Source, reference: &Reference, key: &str, pointer: impl Fn(Digest) -> Pointer) -> Result<Digest, Error> {
        let part = Part::begin(self.work(key, "part")).map_err(|error| self.error(error))?;
        let (packages, signatures) = (source.packages.clone(), source.signatures.clone());
        let (digest, unpacked) = source.unpack(&part.path, self.limits)?;
        check_root(&part.path).map_err(|_| not_a_root(reference))?;
        let image = Image {
            digest,
            source: reference.to_string(),
            size: unpacked.bytes,
            entries: unpacked.entries,
            ignored: unpacked.ignored,
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            packages,
            signatures,
        };
        // An image without derived files works, only slower.
        let derived = self.derive.and_then(|make| derived_of(&part, self.work(key, "derived.part"), make).ok());
        self.publish(part, derived, &image, &pointer(digest)).map_err(|error| self.error(error))?;
        Ok(digest)
    }

    /// In an order in which no half-done state is visible: steps that may fail come first.
    fn publish(&self, part: Part, derived: Option<Part>, image: &Image, pointer: &Pointer) -> io::Result<()> {
        part.sync()?;
        let prepared = self.names().prepare(pointer)?;
        let description = self.description(image.digest);
        let place = self.rootfs(image.digest);
        let _held = lock::shared(&self.root.join("lock"))?;
        if !place.is_dir() {
            // A leftover from when its image was removed.
            discard::directory(&self.derived(image.digest))?;
            if let Some(derived) = derived {
                derived.keep(&self.derived(image.digest))?;
            }
            write_whole(&description, &serde_json::to_vec(image)?)?;
            part.keep(&place).inspect_err(|_| drop(fs::remove_file(&description)))?;
        }
        prepared.commit()
    }

    fn point(&self, pointer: &Pointer) -> io::Result<()> {
        self.names().prepare(pointer)?.commit()
    }

    fn names(&self) -> Names {
        Names::at(self.root.join("names"))
    }

    /// The image's path, whether it exists or not.
    pub fn rootfs(&self, digest: Digest) -> PathBuf {
        self.root.join("rootfs").join(digest.hex())
    }

    fn derived(&self, digest: Digest) -> PathBuf {
        self.work(&digest.hex(), "derived")
    }

    fn description(&self, digest: Digest) -> PathBuf {
        self.work(&digest.hex(), "json")
    }

    fn work(&self, key: &str, end: &str) -> PathBuf {
        self.root.join("rootfs").join(format!("{key}.{end}"))
    }

    /// Of all complete images.
    fn digests(&self) -> io::Result<Vec<Digest>> {
        let entries = match fs::read_dir(self.root.join("rootfs")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut digests = Vec::new();
        for entry in entries {
            digests.extend(entry?.file_name().to_str().and_then(Digest::from_hex));
        }
        digests.sort();
        Ok(digests)
    }

    fn error(&self, source: io::Error) -> Error {
        Error::Store { path: self.root.clone(), source }
    }
}

/// A directory that is being filled. Dropping it removes it.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    done: bool,
}

impl Part {
    fn begin(path: PathBuf) -> io::Result<Self> {
        discard::directory(&path)?;
        fs::DirBuilder::new().mode(0o755).create(&path)?;
        // Independent of the caller's umask: the client runs as another user.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Self { path, done: false })
    }

    /// After this it survives a power failure complete.
    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(fs::File::open(&self.path)?)?)
    }

    fn keep(mut self, place: &Path) -> io::Result<()> {
        fs::rename(&self.path, place)?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.done {
            let _ = discard::directory(&self.path);
        }
    }
}

fn derived_of(rootfs: &Part, path: PathBuf, make: Derive) -> io::Result<Part> {
    let derived = Part::begin(path)?;
    make(&rootfs.path, &derived.path)?;
    Ok(derived)
}

fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    use io::Write as _;
    let new = path.with_extension("json.new");
    let written = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
    written.and_then(|mut file| file.write_all(content)).and_then(|()| fs::rename(&new, path)).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Identifies the present version of the file it is made from: replaced or rewritten, it is another image. `None`: there is no such file.
fn fingerprint(reference: &Reference) -> Option<String> {
    let path = match reference {
        Reference::Layout { path, .. } => path.join("index.json"),
        reference => reference.path()?.to_owned(),
    };
    let metadata = fs::metadata(path).ok()?;
    let numbers = [metadata.dev(), metadata.ino(), metadata.size()];
    let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
    Some(format!("{numbers:?}{times:?}"))
}

fn unsigned(reference: &Reference, keys: &Keys, problem: Problem) -> Error {
    Error::Signature { image: reference.to_string(), keys: keys.path().to_owned(), source: Box::new(problem) }
}

/// The name that must have been signed, if one must; only images of registries have signatures.
fn name_to_verify(reference: &Reference, keys: &[Keys]) -> Result<Option<Name>, Error> {
    let Some(first) = keys.first() else { return Ok(None) };
    let name = if let Reference::Registry(text) = reference { text.as_str().parse().ok() } else { None };
    name.map(Some).ok_or_else(|| unsigned(reference, first, Problem::NoRegistry))
}

fn not_a_root(reference: &Reference) -> Error {
    Error::NotARoot { path: reference.to_string().into(), problem: "it holds no files" }
}

fn check_root(path: &Path) -> Result<(), Error> {
    let wrong = |problem| Error::NotARoot { path: path.to_owned(), problem };
    let mut entries = match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Err(wrong("it is not a directory")),
        entries => entries.map_err(|source| Error::Open { path: path.to_owned(), source })?,
    };
    if entries.next().is_none() { Err(wrong("it is empty")) } else { Ok(()) }
}
