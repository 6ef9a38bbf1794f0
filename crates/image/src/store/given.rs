//! Exports images from the store to files, directories and registries.

use std::fs;

use crate::digest::Digest;
use crate::error::Error;
use crate::export::Destination;
use crate::outgoing::{self, Form};
use crate::reference::Reference;
use crate::registry::name::NotAName;
use crate::registry::{Name, Registries};
use crate::store::{Store, lock};

impl Store {
    /// Writes the image `name` to an `oci:`, `oci-archive:` or `docker-archive:`. Returns its digest there.
    pub fn export(&self, name: &str, to: &Reference) -> Result<Digest, Error> {
        let destination = Destination::check(to)?;
        let _held = lock::shared(&self.root.join("lock")).map_err(|error| self.error(error))?;
        destination.write(&self.builds(name)?)
    }

    /// Sends the image `name` to a registry, with this machine's configuration and logins.
    pub fn push(&self, name: &str, to: &Reference) -> Result<Digest, Error> {
        let wrong = |problem| Error::Reference { text: to.to_string(), problem };
        let Reference::Registry(text) = to else {
            return Err(wrong("an image is pushed to HOST/REPOSITORY[:TAG]; `image export` writes files"));
        };
        let target: Name = text.as_str().parse().map_err(|NotAName(problem)| wrong(problem))?;
        if target.digest.is_some() {
            return Err(wrong("an image is pushed under a tag; its digest is its own"));
        }
        let outgoing = {
            let _held = lock::shared(&self.root.join("lock")).map_err(|error| self.error(error))?;
            let builds = self.builds(name)?;
            fs::create_dir_all(self.blobs()).map_err(|error| self.error(error))?;
            outgoing::prepare(&builds, Form::Zstd, &self.blobs()).map_err(|error| self.error(error))?
        };
        let failed = |source| Error::Push { image: text.as_str().to_owned(), source: Box::new(source) };
        let registries = Registries::of_this_machine().map_err(failed)?;
        registries.push(&target, &outgoing, self.progress.0.as_ref()).map_err(failed)
    }
}
