//! In: an image that is about to be pulled. Out: the keys that must have signed it: those that the caller names, and those of each client whose
//! image it is, so that what a later mount would refuse does not take the name of what it would take.

use std::path::Path;

use shorefast_engine::configuration::Configuration;
use shorefast_engine::{Error, images};
use shorefast_image::{Keys, Reference};

#[derive(Debug)]
pub struct Signers<'a> {
    pub named: Option<&'a Path>,
    pub configuration: &'a Configuration,
}

impl Signers<'_> {
    pub fn of(&self, reference: &Reference) -> Result<Vec<Keys>, Error> {
        let demanded = images::demanded_keys(reference, self.configuration);
        self.named.into_iter().chain(demanded.iter().map(AsRef::as_ref)).map(images::keys).collect()
    }
}
