//! The output of `docker save` and `podman save`: `manifest.json` names a configuration and layers by their paths in the archive; only the
//! configuration has their digests.

use std::sync::Arc;

use serde::Deserialize;

use crate::archive::files::Files;
use crate::digest::Digest;
use crate::error::Error;
use crate::layers::Rules;
use crate::manifest::{self, Platform};
use crate::source::{Layer, Source};
use crate::stream::Expected;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

pub(crate) fn open(files: Files, name: &str, tag: Option<&str>) -> Result<Source, Error> {
    let malformed = |problem: String| Error::Malformed { image: name.to_owned(), problem };
    if !files.contains("manifest.json") {
        return Err(malformed("it has no manifest.json".to_owned()));
    }
    let all: Vec<Saved> = serde_json::from_slice(&files.read("manifest.json")?).map_err(|error| malformed(error.to_string()))?;
    let saved = tagged(all, name, tag)?;
    let bytes = files.read(&saved.config)?;
    let digest = Digest::of(&bytes);
    // Named by its digest, by every version since 2016.
    let named = saved.config.trim_end_matches(".json").rsplit('/').next().and_then(Digest::from_hex);
    if let Some(expected) = named.filter(|named| *named != digest) {
        return Err(Error::Digest { image: name.to_owned(), expected, found: digest });
    }
    let config = manifest::parse_config(&bytes).map_err(malformed)?;
    let unfit = |none: manifest::NoneFits| Error::Platform { image: name.to_owned(), wanted: none.wanted, there: none.there };
    config.check_platform(&Platform::here()).map_err(unfit)?;
    let diff_ids = config.rootfs.diff_ids;
    if diff_ids.len() != saved.layers.len() {
        return Err(malformed(format!("it has {} layers, but its configuration lists {}", saved.layers.len(), diff_ids.len())));
    }
    let files = Arc::new(files);
    let layer = |(path, diff_id): (String, Digest)| {
        let files = Arc::clone(&files);
        Layer::new(Rules::Layer, Expected { diff_id: Some(diff_id), ..Expected::default() }, move || files.open(&path))
    };
    Ok(Source::of_layers(name.to_owned(), Some(digest), saved.layers.into_iter().zip(diff_ids).map(layer).collect()))
}

fn tagged(all: Vec<Saved>, name: &str, tag: Option<&str>) -> Result<Saved, Error> {
    let tags = |saved: &Saved| saved.repo_tags.clone().unwrap_or_default();
    let there: Vec<_> = all.iter().flat_map(tags).collect();
    let is_wanted = |saved: &Saved| tag.is_none_or(|tag| tags(saved).iter().any(|own| own == tag || own.ends_with(&format!("/{tag}"))));
    let mut wanted: Vec<_> = all.into_iter().filter(is_wanted).collect();
    match (wanted.pop(), wanted.is_empty()) {
        (Some(saved), true) => Ok(saved),
        _ => Err(Error::NoSuchTag { image: name.to_owned(), wanted: tag.map(str::to_owned), there }),
    }
}
