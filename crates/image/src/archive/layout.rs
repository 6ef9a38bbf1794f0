//! The OCI image layout: `index.json` names manifests, which name layers, all by digest.

use std::sync::Arc;

use crate::archive::files::Files;
use crate::digest::Digest;
use crate::error::Error;
use crate::layers::Rules;
use crate::manifest::{self, Descriptor, Document, Manifest, Platform};
use crate::source::{Layer, Source};
use crate::stream::Expected;

const TAG: &str = "org.opencontainers.image.ref.name";

pub(crate) fn open(files: Files, name: &str, tag: Option<&str>) -> Result<Source, Error> {
    let malformed = |problem: String| Error::Malformed { image: name.to_owned(), problem };
    if !files.contains("index.json") {
        return Err(malformed("it has no index.json".to_owned()));
    }
    let Document::Index(all) = manifest::parse(&files.read("index.json")?).map_err(malformed)? else {
        return Err(malformed("its index.json is not an index".to_owned()));
    };
    let chosen = tagged(all, name, tag)?;
    let (digest, found) = manifest(&files, name, &chosen)?;
    let config = manifest::parse_config(&checked(&files, name, &found.config)?).map_err(malformed)?;
    config.check_platform(&Platform::here()).map_err(|none| unfit(name, none))?;
    let diff_ids = &config.rootfs.diff_ids;
    if diff_ids.len() != found.layers.len() {
        return Err(malformed(format!("it has {} layers, but its configuration lists {}", found.layers.len(), diff_ids.len())));
    }
    if let Some(other) = found.layers.iter().find(|layer| !manifest::is_layer(&layer.media_type)) {
        return Err(malformed(format!("it has a layer of type {:?}, which is no archive of files", other.media_type)));
    }
    let files = Arc::new(files);
    let layer = |(descriptor, diff_id): (&Descriptor, &Digest)| {
        let (files, blob) = (Arc::clone(&files), blob(descriptor.digest));
        let expected = Expected { digest: Some(descriptor.digest), size: Some(descriptor.size), diff_id: Some(*diff_id) };
        Layer::new(Rules::Layer, expected, move || files.open(&blob))
    };
    Ok(Source::of_layers(name.to_owned(), Some(digest), found.layers.iter().zip(diff_ids).map(layer).collect()))
}

/// The entries with the tag `tag`. Without a tag, there must be one image, in any number of builds.
fn tagged(all: Vec<Descriptor>, name: &str, tag: Option<&str>) -> Result<Vec<Descriptor>, Error> {
    let tag_of = |descriptor: &Descriptor| descriptor.annotations.as_ref().and_then(|annotations| annotations.get(TAG)).cloned();
    let mut tags: Vec<_> = all.iter().filter_map(tag_of).collect();
    tags.sort();
    tags.dedup();
    let chosen: Vec<_> = match tag {
        Some(tag) => all.into_iter().filter(|descriptor| tag_of(descriptor).as_deref() == Some(tag)).collect(),
        None if tags.len() > 1 => Vec::new(),
        None => all,
    };
    if chosen.is_empty() {
        return Err(Error::NoSuchTag { image: name.to_owned(), wanted: tag.map(str::to_owned), there: tags });
    }
    Ok(chosen)
}

/// The manifest for this machine, through any nested indexes.
fn manifest(files: &Files, name: &str, all: &[Descriptor]) -> Result<(Digest, Manifest), Error> {
    let malformed = |problem: String| Error::Malformed { image: name.to_owned(), problem };
    let mut all = all.to_vec();
    for _ in 0..manifest::NESTING {
        let chosen = manifest::choose(&all, &Platform::here()).map_err(|none| unfit(name, none))?;
        match manifest::parse(&checked(files, name, chosen)?).map_err(malformed)? {
            Document::Manifest(found) => return Ok((chosen.digest, found)),
            Document::Index(deeper) => all = deeper,
        }
    }
    Err(malformed("its indexes refer to each other in a circle or too deeply".to_owned()))
}

fn checked(files: &Files, name: &str, descriptor: &Descriptor) -> Result<Vec<u8>, Error> {
    let bytes = files.read(&blob(descriptor.digest))?;
    let found = Digest::of(&bytes);
    if found != descriptor.digest {
        return Err(Error::Digest { image: name.to_owned(), expected: descriptor.digest, found });
    }
    Ok(bytes)
}

fn blob(digest: Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

fn unfit(name: &str, none: manifest::NoneFits) -> Error {
    Error::Platform { image: name.to_owned(), wanted: none.wanted, there: none.there }
}
