//! In: an image to export. Out: a file or a directory that skopeo, podman, docker and Shorefast can read.
//!
//! Nothing is visible under the given name before it is complete.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, ErrorKind, Read, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::digest::Digest;
use crate::error::Error;
use crate::outgoing::{self, Build, Form, Outgoing, Parcel};
use crate::reference::Reference;
use crate::registry::Name;
use crate::registry::name::NotAName;

const LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;
const TAG: &str = "org.opencontainers.image.ref.name";

/// Where an image can be exported to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    kind: Kind,
    path: PathBuf,
    /// A tag, or for `docker-archive:` a whole name.
    tag: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Layout,
    LayoutArchive,
    DockerArchive,
}

impl Destination {
    /// Before anything is written.
    pub fn check(reference: &Reference) -> Result<Self, Error> {
        let (kind, path, tag) = match reference {
            Reference::Layout { path, tag } => (Kind::Layout, path, tag.clone()),
            Reference::LayoutArchive { path, tag } => (Kind::LayoutArchive, path, tag.clone()),
            Reference::DockerArchive { path, tag } => (Kind::DockerArchive, path, tag.as_deref().map(full_name).transpose()?),
            other => {
                let problem = "an image is exported to oci:DIR[:TAG], oci-archive:FILE[:TAG] or docker-archive:FILE[:NAME]";
                return Err(Error::Reference { text: other.to_string(), problem });
            }
        };
        let destination = Self { kind, path: path.clone(), tag };
        let there = fs::symlink_metadata(path);
        let usable = match kind {
            Kind::Layout => there.is_err() || path.join("oci-layout").is_file() || is_empty(path),
            Kind::LayoutArchive | Kind::DockerArchive => there.is_err(),
        };
        if usable { Ok(destination) } else { Err(destination.failed(ErrorKind::AlreadyExists.into())) }
    }

    pub fn form(&self) -> Form {
        if self.kind == Kind::DockerArchive { Form::Plain } else { Form::Zstd }
    }

    /// Writes an image there, or an index of builds for several platforms; docker's archive can hold only the first of them. On failure, existing
    /// files are unchanged.
    pub fn write(&self, builds: &[Build]) -> Result<Digest, Error> {
        let mut made = Made::default();
        let written = self.write_to(builds, &mut made).map_err(|error| self.failed(error))?;
        made.keep();
        Ok(written)
    }

    fn write_to(&self, builds: &[Build], made: &mut Made) -> io::Result<Digest> {
        if self.kind == Kind::Layout {
            let blobs = self.path.join("blobs/sha256");
            made.directories(&blobs)?;
            let image = outgoing::prepare(builds, self.form(), &blobs)?;
            self.layout(&image, &blobs, made)?;
            return Ok(image.digest);
        }
        let directory = self.path.parent().ok_or(ErrorKind::InvalidInput)?;
        let fitting = if self.kind == Kind::DockerArchive { builds.get(..1).unwrap_or_default() } else { builds };
        let image = outgoing::prepare(fitting, self.form(), directory)?;
        let new = new_file(directory)?;
        let mut archive = tar::Builder::new(BufWriter::with_capacity(256 * 1024, new.as_file()));
        let digest = match self.kind {
            Kind::DockerArchive => {
                let only = image.images.first().ok_or(ErrorKind::InvalidInput)?;
                self.docker(only, &mut archive)?;
                Digest::of(&only.config)
            }
            _ => {
                self.layout_archive(&image, &mut archive)?;
                image.digest
            }
        };
        archive.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        new.as_file().sync_all()?;
        new.persist_noclobber(&self.path).map_err(|error| error.error)?;
        Ok(digest)
    }

    fn layout(&self, image: &Parcel, blobs: &Path, made: &mut Made) -> io::Result<()> {
        let index = self.path.join("index.json");
        let merged = match fs::read(&index) {
            Ok(bytes) => self.merged(&serde_json::from_slice(&bytes)?, image)?,
            Err(error) if error.kind() == ErrorKind::NotFound => serde_json::to_vec(&self.index(image))?,
            Err(error) => return Err(error),
        };
        for Outgoing { layer, config, .. } in &image.images {
            made.file(&blobs.join(layer.digest.hex()), layer.reader())?;
            made.file(&blobs.join(Digest::of(config).hex()), &config[..])?;
        }
        for (digest, manifest) in image.inner() {
            made.file(&blobs.join(digest.hex()), manifest)?;
        }
        made.file(&blobs.join(image.digest.hex()), &image.document[..])?;
        made.file(&self.path.join("oci-layout"), LAYOUT)?;
        // It makes the image visible, so it comes last.
        replace(&index, &merged)
    }

    /// The layout's own index with our image in it, in the place of one with the same tag.
    fn merged(&self, before: &Value, image: &Parcel) -> io::Result<Vec<u8>> {
        let malformed = || io::Error::new(ErrorKind::InvalidData, "its index.json is no index");
        let mut index = before.clone();
        let manifests = index.get_mut("manifests").and_then(Value::as_array_mut).ok_or_else(malformed)?;
        let tag_of = |entry: &Value| entry["annotations"][TAG].as_str().map(str::to_owned);
        manifests.retain(|entry| tag_of(entry) != self.tag || (self.tag.is_none() && entry["digest"] != json!(image.digest)));
        manifests.push(serde_json::to_value(self.entry(image))?);
        Ok(serde_json::to_vec(&index)?)
    }

    fn layout_archive(&self, image: &Parcel, archive: &mut Archive<'_>) -> io::Result<()> {
        let blob = |digest: Digest| format!("blobs/sha256/{}", digest.hex());
        append(archive, "oci-layout", LAYOUT.len() as u64, LAYOUT)?;
        let index = serde_json::to_vec(&self.index(image))?;
        append(archive, "index.json", index.len() as u64, &index[..])?;
        append(archive, &blob(image.digest), image.document.len() as u64, &image.document[..])?;
        for (digest, manifest) in image.inner() {
            append(archive, &blob(digest), manifest.len() as u64, manifest)?;
        }
        for Outgoing { layer, config, .. } in &image.images {
            append(archive, &blob(Digest::of(config)), config.len() as u64, &config[..])?;
            append(archive, &blob(layer.digest), layer.size, layer.reader())?;
        }
        Ok(())
    }

    fn docker(&self, image: &Outgoing, archive: &mut Archive<'_>) -> io::Result<()> {
        let (config, layer) = (format!("{}.json", Digest::of(&image.config).hex()), format!("{}.tar", image.layer.digest.hex()));
        let saved = serde_json::to_vec(&[Saved { config: &config, repo_tags: self.tag.iter().collect(), layers: [&layer] }])?;
        append(archive, "manifest.json", saved.len() as u64, &saved[..])?;
        append(archive, &config, image.config.len() as u64, &image.config[..])?;
        append(archive, &layer, image.layer.size, image.layer.reader())
    }

    fn index<'a>(&'a self, image: &Parcel) -> Index<'a> {
        Index { schema_version: 2, media_type: outgoing::INDEX, manifests: [self.entry(image)] }
    }

    fn entry<'a>(&'a self, image: &Parcel) -> Entry<'a> {
        let annotations = self.tag.as_deref().map(|tag| Annotations { tag });
        Entry { media_type: image.media_type, digest: image.digest, size: image.document.len() as u64, annotations }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Export { path: self.path.clone(), source }
    }
}

type Archive<'a> = tar::Builder<BufWriter<&'a File>>;

/// `docker load` wants a tag.
fn full_name(text: &str) -> Result<String, Error> {
    let wrong = |problem| Error::Reference { text: text.to_owned(), problem };
    let name: Name = text.parse().map_err(|NotAName(problem)| wrong(problem))?;
    match name {
        Name { digest: Some(_), .. } => Err(wrong("an archive gives an image a tag, not a digest")),
        Name { tag: None, .. } => Ok(format!("{name}:latest")),
        name => Ok(name.to_string()),
    }
}

fn append(archive: &mut Archive<'_>, name: &str, size: u64, content: impl Read) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(size);
    header.set_mtime(0);
    archive.append_data(&mut header, name, content)
}

/// A file that goes away unless it is given its name.
fn new_file(directory: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(".shorefast-").permissions(Permissions::from_mode(0o644)).tempfile_in(directory)
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut new = new_file(path.parent().ok_or(ErrorKind::InvalidInput)?)?;
    new.write_all(content)?;
    new.as_file().sync_all()?;
    new.persist(path).map(|_| ()).map_err(|error| error.error)
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

/// What was created in a layout. Dropping it removes it again.
#[derive(Default)]
struct Made {
    directories: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Made {
    fn directories(&mut self, path: &Path) -> io::Result<()> {
        let missing: Vec<_> = path.ancestors().take_while(|path| !path.exists()).map(Path::to_owned).collect();
        for directory in missing.into_iter().rev() {
            fs::create_dir(&directory)?;
            self.directories.push(directory);
        }
        Ok(())
    }

    /// An existing file has the same content: it is named by its digest, or is the same in every layout.
    fn file(&mut self, path: &Path, mut content: impl Read) -> io::Result<()> {
        if path.exists() {
            return Ok(());
        }
        let mut new = new_file(path.parent().ok_or(ErrorKind::InvalidInput)?)?;
        io::copy(&mut content, &mut new)?;
        new.as_file().sync_all()?;
        new.persist(path).map_err(|error| error.error)?;
        self.files.push(path.to_owned());
        Ok(())
    }

    fn keep(mut self) {
        self.files.clear();
        self.directories.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.files.iter().for_each(|path| drop(fs::remove_file(path)));
        self.directories.iter().rev().for_each(|path| drop(fs::remove_dir(path)));
    }
}

/// Structures, not maps: their fields have one order in every build.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Index<'a> {
    schema_version: u32,
    media_type: &'static str,
    manifests: [Entry<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    media_type: &'static str,
    digest: Digest,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Annotations<'a>>,
}

#[derive(Serialize)]
struct Annotations<'a> {
    #[serde(rename = "org.opencontainers.image.ref.name")]
    tag: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Saved<'a> {
    config: &'a str,
    repo_tags: Vec<&'a String>,
    layers: [&'a str; 1],
}
