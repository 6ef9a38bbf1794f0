//! In: an image that was found. Out: its layers unpacked into a directory.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use crate::digest::Digest;
use crate::error::Error;
use crate::layers::{Limits, Rules, Unpacked, Unpacking};
use crate::signature::Signed;
use crate::stream::{Expected, Stream};

/// A blob's bytes, as distributed.
pub type Blob = Box<dyn Read + Send>;

/// Whether the network may be used for images that are not in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    Allowed,
    Forbidden,
}

/// Everything that is needed to unpack an image; nothing has been read yet.
#[derive(Debug)]
pub struct Source {
    /// As requested, for errors.
    pub name: String,
    /// `None`: it is the digest of its only layer, known once that was read.
    pub digest: Option<Digest>,
    pub content: Content,
    /// Names and versions of the packages that it is made of, if it is.
    pub packages: BTreeMap<String, String>,
    /// The signatures that were verified before any part of it is used.
    pub signatures: Vec<Signed>,
}

type Maker = Box<dyn FnOnce(&mut Unpacking) -> Result<(), Error> + Send>;

pub enum Content {
    /// The lowest first.
    Layers(Vec<Layer>),
    /// Assembled by a function.
    Made(Maker),
}

pub struct Layer {
    /// May block: a layer may still be downloading.
    pub open: Box<dyn FnOnce() -> Result<Blob, Error> + Send>,
    pub expected: Expected,
    pub rules: Rules,
    /// Which of its entries to take, by path without a leading slash.
    pub wants: fn(&[u8]) -> bool,
}

impl Layer {
    pub fn new(rules: Rules, expected: Expected, open: impl FnOnce() -> Result<Blob, Error> + Send + 'static) -> Self {
        Self { open: Box::new(open), expected, rules, wants: |_| true }
    }
}

impl std::fmt::Debug for Layer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Layer").field("expected", &self.expected).field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Content {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Layers(layers) => out.debug_tuple("Layers").field(layers).finish(),
            Self::Made(_) => out.debug_tuple("Made").finish_non_exhaustive(),
        }
    }
}

impl Source {
    pub fn of_layers(name: String, digest: Option<Digest>, layers: Vec<Layer>) -> Self {
        Self { name, digest, content: Content::Layers(layers), packages: BTreeMap::new(), signatures: Vec::new() }
    }

    /// Unpacks all layers into the empty `directory`. After an error its content is useless.
    pub fn unpack(self, directory: &Path, limits: Limits) -> Result<(Digest, Unpacked), Error> {
        let image = self.name;
        let failed = |layer: usize| {
            let image = image.clone();
            move |source| Error::Layer { image, layer, source }
        };
        let mut unpacking = Unpacking::into(directory, limits).map_err(failed(0))?;
        let mut last = None;
        let layers = match self.content {
            Content::Layers(layers) => layers,
            Content::Made(make) => {
                make(&mut unpacking)?;
                Vec::new()
            }
        };
        for (number, layer) in layers.into_iter().enumerate() {
            let number = number + 1;
            let unreadable =
                |source: io::Error| Error::Layer { image: image.clone(), layer: number, source: crate::layers::Error::Read(source) };
            let mut stream = Stream::start((layer.open)()?, layer.expected).map_err(unreadable)?;
            unpacking.apply(&mut stream, layer.rules, layer.wants).map_err(failed(number))?;
            let found = stream.finish(unpacking.bytes_left());
            last = Some(found.map_err(|source| Error::Blob { image: image.clone(), layer: number, source })?);
        }
        let digest = self.digest.or(last.map(|last| last.digest));
        let digest = digest.ok_or_else(|| Error::Malformed { image: image.clone(), problem: "it has no layers".to_owned() })?;
        Ok((digest, unpacking.finish()))
    }
}
