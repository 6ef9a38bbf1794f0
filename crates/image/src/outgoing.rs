//! In: root filesystems. Out: an image to export: one layer, a configuration and a manifest, the same on every machine; for builds for
//! several platforms, an index of such images.
//!
//! The store holds the sum of an image's layers; its origin and its original layers do not matter to the recipient. So it has no date, no
//! history and no name, and a pulled image is the same when it is exported again.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::digest::Digest;
use crate::manifest::Platform;
use crate::pack;

pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Fast, and compresses well enough. Another level gives other bytes, and so another digest.
const ZSTD_LEVEL: i32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Zstd,
    Plain,
}

/// A root filesystem, and what its configuration says.
#[derive(Clone, Debug)]
pub struct Build {
    pub rootfs: PathBuf,
    pub about: About,
}

/// The exported image: its document is an image's manifest or, for several platforms, an index.
#[derive(Debug)]
pub struct Parcel {
    pub digest: Digest,
    pub media_type: &'static str,
    pub document: Vec<u8>,
    pub images: Vec<Outgoing>,
}

impl Parcel {
    /// Manifests that only the index names.
    pub fn inner(&self) -> impl Iterator<Item = (Digest, &[u8])> {
        let inner = self.images.iter().filter(|image| image.digest != self.digest);
        inner.map(|image| (image.digest, image.manifest.as_slice()))
    }
}

/// The image for one platform.
#[derive(Debug)]
pub struct Outgoing {
    /// Of the manifest.
    pub digest: Digest,
    pub manifest: Vec<u8>,
    pub config: Vec<u8>,
    pub layer: Layer,
}

/// The only layer, in a file without a name.
#[derive(Debug)]
pub struct Layer {
    pub file: File,
    pub digest: Digest,
    pub size: u64,
}

impl Layer {
    /// Starts at the beginning; may be called several times.
    pub fn reader(&self) -> impl Read + '_ {
        FromStart { file: &self.file, position: 0 }
    }
}

struct FromStart<'a> {
    file: &'a File,
    position: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

/// What its configuration says.
#[derive(Clone, Debug)]
pub struct About {
    pub platform: Platform,
    /// The program that a container of it runs; clients' images have none.
    pub entrypoint: Vec<String>,
}

impl About {
    pub fn client() -> Self {
        Self { platform: Platform::here(), entrypoint: Vec::new() }
    }
}

/// `scratch`: a directory with room for the layers.
pub fn prepare(builds: &[Build], form: Form, scratch: &Path) -> io::Result<Parcel> {
    let images = builds.iter().map(|build| image(&build.rootfs, &build.about, form, scratch)).collect::<io::Result<Vec<_>>>()?;
    if let [image] = images.as_slice() {
        return Ok(Parcel { digest: image.digest, media_type: MANIFEST, document: image.manifest.clone(), images });
    }
    let mut manifests: Vec<_> = builds.iter().zip(&images).map(|(build, image)| Listed::of(build, image)).collect();
    manifests.sort_by_key(|listed| listed.platform.to_string());
    let document = serde_json::to_vec(&Index { schema_version: 2, media_type: INDEX, manifests })?;
    Ok(Parcel { digest: Digest::of(&document), media_type: INDEX, document, images })
}

fn image(rootfs: &Path, about: &About, form: Form, scratch: &Path) -> io::Result<Outgoing> {
    let file = tempfile::tempfile_in(scratch)?;
    let blob = Hashed::new(BufWriter::with_capacity(256 * 1024, file));
    let (diff_id, blob) = match form {
        Form::Plain => {
            let content = pack::write(rootfs, Hashed::new(blob))?;
            (content.hash, content.inner)
        }
        Form::Zstd => {
            let content = pack::write(rootfs, Hashed::new(zstd::Encoder::new(blob, ZSTD_LEVEL)?))?;
            (content.hash, content.inner.finish()?)
        }
    };
    let (digest, size) = (Digest::finished(blob.hash), blob.size);
    // Not dropped: an error of the last write would be lost.
    let file = blob.inner.into_inner().map_err(io::IntoInnerError::into_error)?;
    let config = serde_json::to_vec(&Config::of(about, Digest::finished(diff_id)))?;
    let media_type = if form == Form::Zstd { format!("{LAYER}+zstd") } else { LAYER.to_owned() };
    let manifest = serde_json::to_vec(&Manifest {
        schema_version: 2,
        media_type: MANIFEST,
        config: Part { media_type: CONFIG.to_owned(), digest: Digest::of(&config), size: config.len() as u64 },
        layers: [Part { media_type, digest, size }],
    })?;
    Ok(Outgoing { digest: Digest::of(&manifest), manifest, config, layer: Layer { file, digest, size } })
}

/// Hashes and counts the bytes that are written through it.
struct Hashed<W> {
    inner: W,
    hash: Sha256,
    size: u64,
}

impl<W> Hashed<W> {
    fn new(inner: W) -> Self {
        Self { inner, hash: Sha256::new(), size: 0 }
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Structures, not maps: their fields have one order in every build.
#[derive(Serialize)]
struct Config {
    /// Tools that show images expect a date; this one has no meaning.
    created: &'static str,
    architecture: String,
    os: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<String>,
    config: Execution,
    rootfs: Rootfs,
}

#[derive(Serialize)]
struct Execution {
    #[serde(rename = "Entrypoint", skip_serializing_if = "Vec::is_empty")]
    entrypoint: Vec<String>,
}

#[derive(Serialize)]
struct Rootfs {
    #[serde(rename = "type")]
    kind: &'static str,
    diff_ids: [Digest; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: u32,
    media_type: &'static str,
    config: Part,
    layers: [Part; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    schema_version: u32,
    media_type: &'static str,
    manifests: Vec<Listed>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    media_type: &'static str,
    digest: Digest,
    size: u64,
    platform: Platform,
}

impl Listed {
    fn of(build: &Build, image: &Outgoing) -> Self {
        Self { media_type: MANIFEST, digest: image.digest, size: image.manifest.len() as u64, platform: build.about.platform.clone() }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    media_type: String,
    digest: Digest,
    size: u64,
}

impl Config {
    fn of(about: &About, diff_id: Digest) -> Self {
        Self {
            created: "1970-01-01T00:00:00Z",
            architecture: about.platform.architecture.clone(),
            os: about.platform.os.clone(),
            variant: about.platform.variant.clone(),
            config: Execution { entrypoint: about.entrypoint.clone() },
            rootfs: Rootfs { kind: "layers", diff_ids: [diff_id] },
        }
    }
}
