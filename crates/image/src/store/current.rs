//! Checks whether images are still what their names stand for at their origin. Fetches only lists and manifests.

use std::collections::BTreeMap;

use serde::Serialize;
use shorefast_packages::Wishes;

use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::Platform;
use crate::packaged;
use crate::reference::Reference;
use crate::registry::name::NotAName;
use crate::registry::{Name, Registries};
use crate::store::names::Pointer;
use crate::store::{Image, Network, Store};

/// What a name stands for at its origin now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    pub digest: Digest,
    /// For images of packages: packages whose version differs from the stored image. Empty if that image does not record its packages.
    pub changes: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    pub package: String,
    /// `None`: the package is new, or gone.
    pub from: Option<String>,
    pub to: Option<String>,
    /// The new version comes from the archive of security updates.
    pub security: bool,
}

impl Store {
    /// The names that have an origin to ask: those of registries, without a digest, and images of packages. Images
    /// that were imported from a file or built under a name of their own have none.
    pub fn refreshable(&self) -> Result<Vec<(Reference, Image)>, Error> {
        let names = self.names().all().map_err(|error| self.error(error))?;
        let mut found = Vec::new();
        for pointer in names {
            let Ok(reference) = pointer.name.parse() else { continue };
            let image = match self.inspect(pointer.digest) {
                // Removed meanwhile.
                Err(Error::Unknown { .. }) => continue,
                image => image?,
            };
            if has_origin(&reference, &pointer, &image) {
                found.push((reference, image));
            }
        }
        found.sort_by_key(|(reference, _): &(Reference, _)| reference.to_string());
        Ok(found)
    }

    pub fn newest(&self, reference: &Reference, here: &Image) -> Result<Newest, Error> {
        match reference {
            Reference::Registry(text) => {
                let image = text.as_str();
                let name: Name = image.parse().map_err(|NotAName(problem)| Error::Reference { text: image.to_owned(), problem })?;
                let failed = |source| Error::Registry { image: image.to_owned(), source: Box::new(source) };
                let found =
                    Registries::of_this_machine().and_then(|registries| registries.find(&name, &Platform::here())).map_err(failed)?;
                Ok(Newest { digest: found.digest, changes: Vec::new() })
            }
            Reference::Packages(_) => {
                let spec = reference.to_string().parse().map_err(shorefast_packages::Error::from)?;
                let lock = packaged::lock(&spec, &Wishes::default(), &self.means(Network::Allowed))?;
                Ok(Newest { digest: packaged::digest(&lock)?, changes: changes(&here.packages, lock.versions()) })
            }
            other => Err(Error::Absent { reference: other.to_string() }),
        }
    }
}

fn has_origin(reference: &Reference, pointer: &Pointer, image: &Image) -> bool {
    match reference {
        Reference::Packages(_) => true,
        // An image that was imported from a file, which has a fingerprint, or built under a name like a registry's does not come from there.
        Reference::Registry(name) => {
            !name.as_str().contains('@') && pointer.fingerprint.is_empty() && matches!(image.source.parse(), Ok(Reference::Registry(_)))
        }
        _ => false,
    }
}

fn changes<'a>(before: &BTreeMap<String, String>, now: impl Iterator<Item = (&'a str, &'a str, bool)>) -> Vec<Change> {
    if before.is_empty() {
        return Vec::new();
    }
    let mut gone = before.clone();
    let mut changes = Vec::new();
    for (package, version, security) in now {
        let from = gone.remove(package);
        if from.as_deref() != Some(version) {
            changes.push(Change { package: package.to_owned(), from, to: Some(version.to_owned()), security });
        }
    }
    changes.extend(gone.into_iter().map(|(package, from)| Change { package, from: Some(from), to: None, security: false }));
    changes.sort_by(|one, other| one.package.cmp(&other.package));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_what_differs() {
        let before = [("a", "1"), ("b", "1"), ("c", "1")].map(|(name, version)| (name.to_owned(), version.to_owned())).into();
        let now = [("a", "1", false), ("b", "2", true), ("d", "1", false)];
        let found: Vec<_> =
            changes(&before, now.into_iter()).into_iter().map(|change| (change.package, change.from, change.to, change.security)).collect();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            found,
            [
                ("b".to_owned(), text("1"), text("2"), true),
                ("c".to_owned(), text("1"), None, false),
                ("d".to_owned(), None, text("1"), false)
            ]
        );
        assert_eq!(changes(&BTreeMap::new(), now.into_iter()), [], "it does not record which packages it was made of");
    }
}
