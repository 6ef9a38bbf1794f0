//! All that it takes to make a mount again: the request, the client's definition as resolved, the image by digest, and the content of the
//! files that the caller gave.
//!
//! It contains secrets, so it is kept in memory only: in a sealed memfd that the mount's keeper holds ([`seal`](Recipe::seal),
//! [`of_keeper`](Recipe::of_keeper)), and ends with it. On disk, the record has a [`Fingerprint`]: enough to tell whether another request
//! is for the same mount, and in what it differs.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SealFlags};
use serde::{Deserialize, Serialize};
use shorefast_broker::policy::Owner;
use shorefast_image::Digest;
use shorefast_sandbox::Spec;
use shorefast_sandbox::spec::{Content, Hidden, Secret};
use shorefast_sys as sys;

use crate::definition::{Layer, Source};
use crate::difference::Difference;
use crate::mode::Place;
use crate::options;
use crate::process::Process;
use crate::request::{ClientChoice, HelperFlag, Request};
use crate::text;

#[derive(Clone, Serialize, Deserialize)]
pub struct Recipe {
    pub request: Request,
    /// The client's name.
    pub client: String,
    /// Its definition, with everything that was layered over it.
    pub definition: Layer,
    pub mode: Place,
    pub owner: Owner,
    /// Of the image that the client runs from.
    pub digest: Option<Digest>,
    /// Where that image is.
    #[serde(with = "text")]
    pub images: PathBuf,
    /// What the caller's files held when they were read.
    pub files: Vec<GivenFile>,
}

/// A file of the caller's, by its name inside the sandbox.
#[derive(Clone, Serialize, Deserialize)]
pub struct GivenFile {
    #[serde(with = "text")]
    pub inside: PathBuf,
    pub content: Vec<u8>,
}

/// Options and files may be secrets.
impl std::fmt::Debug for Recipe {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Recipe").field("client", &self.client).field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for GivenFile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("GivenFile").field("inside", &self.inside).finish_non_exhaustive()
    }
}

impl Recipe {
    /// With what became known on the way to the mount.
    pub fn at(&self, digest: Option<Digest>, images: &Path) -> Self {
        Self { digest, images: images.to_owned(), ..self.clone() }
    }

    /// With the files that the caller gave. `spec`: with its files in memory.
    pub fn with_files(self, spec: &Spec) -> Self {
        let given = |file: &shorefast_sandbox::spec::File| match &file.content {
            Content::Secret { secret: Secret::Given(text), .. } => {
                Some(GivenFile { inside: file.inside.clone(), content: text.reveal().to_vec() })
            }
            _ => None,
        };
        Self { files: spec.files.iter().filter_map(given).collect(), ..self }
    }

    /// Puts the files that were read then in the place of those that a new plan would read now.
    pub fn restore_files(&self, spec: &mut Spec) {
        for file in &mut spec.files {
            let Some(kept) = self.files.iter().find(|kept| kept.inside == file.inside) else { continue };
            let kept = Secret::Given(Hidden::new(kept.content.clone()));
            match &mut file.content {
                Content::Secret { secret, .. } => *secret = kept,
                content => *content = Content::Secret { secret: kept, form: Default::default() },
            }
        }
    }

    /// Sealed against changes, and without a name.
    pub fn seal(&self) -> sys::Result<OwnedFd> {
        let memfd = rustix::fs::memfd_create("shorefast-recipe", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
        let mut file = File::from(sys::call(|| "memfd_create(\"shorefast-recipe\")".into(), memfd)?);
        let bytes = serde_json::to_vec(self).map_err(std::io::Error::from);
        sys::call(|| "write(\"shorefast-recipe\")".into(), bytes.and_then(|bytes| file.write_all(&bytes)))?;
        let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        sys::call(|| "fcntl(F_ADD_SEALS)".into(), rustix::fs::fcntl_add_seals(&file, seals))?;
        Ok(file.into())
    }

    /// `None`: it is no recipe, or one of a build that wrote it in another way.
    pub fn read(mut file: impl std::io::Read) -> Option<Self> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// From the keeper of a live mount. `None`: it is gone, or holds none.
    pub fn of_keeper(keeper: &Process) -> Option<Self> {
        held_by(keeper, sys::shim::RECIPE).and_then(Self::read)
    }

    /// Options that the definition calls a secret do not count: with a new password it is the same mount.
    pub fn fingerprint(&self, fstype: &str, image: &str) -> Fingerprint {
        let secret = self.definition.secret_options();
        let items = options::parse(&self.request.options).map(|options| options.items).unwrap_or_default();
        let items: Vec<_> = items.into_iter().filter(|item| !secret.contains(&item.name)).collect();
        let flags: Vec<_> = self.request.flags.iter().copied().map(HelperFlag::word).collect();
        let definition = serde_json::to_vec(&self.definition).unwrap_or_default();
        let mode = format!("{} {:?} {:?}", self.mode, self.request.container, self.request.namespace.is_some());
        let options = format!("{} {:?} {}", options::join(&items), flags, self.flag_bits());
        Fingerprint {
            fstype: hash(fstype.as_bytes()),
            source: hash(self.request.source.as_encoded_bytes()),
            options: hash(options.as_bytes()),
            client: hash(&[self.client.as_bytes(), b"\0", &definition].concat()),
            image: hash(image.as_bytes()),
            mode: hash(mode.as_bytes()),
            group: Some(self.request.group.map_or(FilesGroup::Own, FilesGroup::Asked)),
        }
    }

    /// Those of mount(2), such as `ro`.
    fn flag_bits(&self) -> u64 {
        options::parse(&self.request.options).map_or(0, |options| options.flags)
    }
}

/// With absolute paths: it may be planned again in another working directory.
pub fn from_anywhere(request: Request, source: Source) -> Request {
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    Request {
        source: if source == Source::Path { absolute(request.source.into()).into() } else { request.source },
        target: absolute(request.target),
        client: if let ClientChoice::File(file) = request.client { ClientChoice::File(absolute(file)) } else { request.client },
        ..request
    }
}

/// A recipe that a process of ours holds at this number.
pub fn held_by(process: &Process, number: i32) -> Option<File> {
    // Before the open, because that may never return if it is another process by now, and after it.
    let file = process.is_alive().then(|| File::open(format!("/proc/{}/fd/{number}", process.pid)).ok())??;
    process.is_alive().then_some(file)
}

fn hash(bytes: &[u8]) -> String {
    Digest::of(bytes).hex()[..16].to_owned()
}

/// What a mount was made of, field by field, as hashes: says whether something is the same, and not what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    fstype: String,
    source: String,
    options: String,
    client: String,
    image: String,
    mode: String,
    /// Missing in records of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<FilesGroup>,
}

/// Which group the files of a mount belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilesGroup {
    /// Whichever they have.
    Own,
    Asked(u32),
}

impl Fingerprint {
    /// Empty: the same.
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let rows = [
            (Difference::Type, &self.fstype, &other.fstype),
            (Difference::Source, &self.source, &other.source),
            (Difference::Options, &self.options, &other.options),
            (Difference::Client, &self.client, &other.client),
            (Difference::Image, &self.image, &other.image),
            (Difference::Mode, &self.mode, &other.mode),
        ];
        let is_other = matches!(other.group, Some(FilesGroup::Asked(asked)) if !self.has_group(asked));
        let group = is_other.then_some(Difference::Group);
        rows.into_iter().filter(|(_, ours, theirs)| ours != theirs).map(|(difference, ..)| difference).chain(group).collect()
    }

    /// Whoever asks for no group takes the files as they are.
    pub fn has_group(&self, asked: u32) -> bool {
        self.group.is_none_or(|group| group == FilesGroup::Asked(asked))
    }
}
