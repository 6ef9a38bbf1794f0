//! In: the name of an image in a registry. Out: a [`Source`] whose layers are downloaded once the first of them is requested.

use std::path::Path;
use std::sync::Arc;

use shorefast_net::Progress;

use crate::error::Error;
use crate::layers::Rules;
use crate::manifest::Platform;
use crate::reference::RegistryName;
use crate::registry::name::NotAName;
use crate::registry::{Coming, Name, Registries};
use crate::source::{Blob, Layer, Source};
use crate::stream::Expected;

pub fn open(name: &RegistryName, blobs: &Path, progress: &Arc<dyn Progress>) -> Result<Source, Error> {
    let image = name.as_str().to_owned();
    let name: Name = image.parse().map_err(|NotAName(problem)| Error::Reference { text: image.clone(), problem })?;
    let found = Registries::of_this_machine().and_then(|registries| registries.find(&name, &Platform::here()));
    let found = found.map_err(|source| Error::Registry { image: image.clone(), source: Box::new(source) })?;
    let digest = Some(found.digest);
    let layer = |coming: Coming| {
        let image = image.clone();
        // The blob itself is verified during the download.
        let expected = Expected { diff_id: Some(coming.layer.diff_id), ..Expected::default() };
        let open = move || match coming.wait() {
            Ok(blob) => Ok(Box::new(blob) as Blob),
            Err(source) => Err(Error::Registry { image, source: Box::new(source) }),
        };
        Layer::new(Rules::Layer, expected, open)
    };
    let layers = found.fetch(blobs, progress).into_iter().map(layer).collect();
    Ok(Source::of_layers(image.clone(), digest, layers))
}
