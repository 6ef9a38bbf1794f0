//! In: records. Out: which images are in use by mounts, which the image store cannot know.

use std::path::{Path, PathBuf};

use shorefast_image::store::{Collected, Extent, Users};
use shorefast_image::{Digest, Keys, Reference, Store};

use crate::configuration::Configuration;
use crate::error::Error;
use crate::records::Records;
use crate::{client, services, state};

/// A store whose images have derived files: their /etc as the sandbox presents it to clients.
pub fn with_derived(store: Store) -> Store {
    store.with_derived(shorefast_sandbox::launcher::etc::prepare)
}

/// Which images are in use, and by which targets. A mount in progress counts; a record whose mount is gone does not.
pub fn users(records: &Records) -> Result<Users, Error> {
    let mut users = Users::new();
    let mut add = |digest: Digest, user: String| users.entry(digest).or_default().push(user);
    // Unfinished mounts first: one that completes meanwhile is found below; counting it twice is harmless.
    for (id, digest) in records.images_of_unfinished()? {
        add(digest, format!("a mount that is being made ({id})"));
    }
    for record in records.all()? {
        if let Some(digest) = record.digest.filter(|_| state::of(records, &record).is_some()) {
            add(digest, record.target.display().to_string());
        }
    }
    for running in services::record::all(records) {
        if let Some(digest) = running.service.digest {
            add(digest, format!("the service {}", running.service.name));
        }
    }
    Ok(users)
}

/// Of the file that a definition or the caller names: it must be root's alone.
pub fn keys(path: &Path) -> Result<Keys, Error> {
    Keys::read(path).map_err(|source| Error::Image(shorefast_image::Error::Keys { path: path.to_owned(), source }))
}

/// The files of keys that clients demand for this image.
pub fn demanded_keys(reference: &Reference, configuration: &Configuration) -> Vec<PathBuf> {
    // A definition that cannot be used demands nothing: nothing is mounted by it.
    let definitions = client::all(configuration).into_iter().flatten().map(|client| client.definition);
    let is_its = |image: &str| image.parse::<Reference>().is_ok_and(|image| image == *reference);
    let mut paths: Vec<_> = definitions
        .filter(|definition| definition.image.as_deref().is_some_and(is_its))
        .filter_map(|definition| definition.signed_by)
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// For commands that are about the store, and get no image.
pub fn about_the_store_itself(error: shorefast_image::Error) -> Error {
    Error::ImageStore(Box::new(error))
}

/// No image was to be got.
pub(crate) fn about_the_store(error: Error) -> Error {
    match error {
        Error::Image(error) => about_the_store_itself(error),
        other => other,
    }
}

pub fn remove(store: &Store, records: &Records, name: &str) -> Result<(), Error> {
    store.remove(name, || users(records)).map_err(about_the_store)
}

pub fn collect(store: &Store, records: &Records, extent: Extent) -> Result<Collected, Error> {
    store.collect(extent, || users(records)).map_err(about_the_store)
}
