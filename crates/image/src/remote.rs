//! In: the name of an image in a registry, and the keys that must have signed it. Out: a [`Source`] whose layers are downloaded once the
//! first of them is requested.

use std::path::Path;
use std::sync::Arc;

use shorefast_net::Progress;

use crate::error::Error;
use crate::layers::Rules;
use crate::manifest::Platform;
use crate::reference::RegistryName;
use crate::registry::name::NotAName;
use crate::registry::{Coming, Name, Registries};
use crate::signature::Keys;
use crate::source::{Blob, Layer, Source};
use crate::stream::Expected;

/// `keys`: in addition to those of registries.toml.
pub fn open(name: &RegistryName, keys: &[Keys], blobs: &Path, progress: &Arc<dyn Progress>) -> Result<Source, Error> {
    let image = name.as_str().to_owned();
    let name: Name = image.parse().map_err(|NotAName(problem)| Error::Reference { text: image.clone(), problem })?;
    let failed = |source| Error::Registry { image: image.clone(), source: Box::new(source) };
    let registries = Registries::of_this_machine().map_err(failed)?;
    let unusable = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Keys { path, source }
    };
    let of_registry = registries.hosts.keys(&name).map(|path| Keys::read(path).map_err(unusable(path))).transpose()?;
    let found = registries.find(&name, &Platform::here()).map_err(failed)?;
    let mut signatures = Vec::new();
    for keys in of_registry.iter().chain(keys) {
        let refused = |problem| Error::Signature { image: image.clone(), keys: keys.path().to_owned(), source: Box::new(problem) };
        signatures.push(keys.verify(&found, &name).map_err(refused)?);
    }
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
    Ok(Source { signatures, ..Source::of_layers(image.clone(), digest, layers) })
}
