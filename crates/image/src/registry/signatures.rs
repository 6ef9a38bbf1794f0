//! In: an image that was found. Out: the signatures beside it, under cosign's tag. They are not verified here.

use crate::digest::Digest;
use crate::manifest::{self, Descriptor, Document};
use crate::registry::error::Error;
use crate::registry::session::Session;
use crate::registry::{Image, document, small_blob};

/// A manifest could list any number of them.
const MOST: usize = 64;

const TEXT: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// A text, and its claimed signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    pub text: Vec<u8>,
    pub base64: String,
}

impl Image {
    /// Asks one endpoint after the other, first about the index and then about the build for this platform, until `accept` takes a signature. A
    /// signature that one endpoint lacks or withholds may be at another. Fails only if an endpoint could not be asked.
    pub fn any_signature<T>(&self, mut accept: impl FnMut(Signature) -> Option<T>) -> Result<Option<T>, Error> {
        let mut failure = None;
        for digest in [Some(self.named), Some(self.digest).filter(|digest| *digest != self.named)].into_iter().flatten() {
            for session in &self.sessions {
                match signatures(session, digest, &mut accept) {
                    Ok(Some(accepted)) => return Ok(Some(accepted)),
                    Ok(None) | Err(Error::Missing { .. }) => {}
                    Err(error) => failure = Some(error),
                }
            }
        }
        failure.map_or(Ok(None), Err)
    }
}

fn signatures<T>(session: &Session, of: Digest, accept: &mut impl FnMut(Signature) -> Option<T>) -> Result<Option<T>, Error> {
    let tag = format!("sha256-{}.sig", of.hex());
    let (_, bytes) = document(session, &tag, None)?;
    let malformed = |problem| Error::Malformed { image: format!("{}:{tag}", session.endpoint.repository), problem };
    let Document::Manifest(manifest) = manifest::parse(&bytes).map_err(malformed)? else { return Ok(None) };
    for (layer, base64) in manifest.layers.iter().filter_map(signed).take(MOST) {
        let text = small_blob(session, layer.digest)?;
        if let Some(accepted) = accept(Signature { text, base64: base64.clone() }) {
            return Ok(Some(accepted));
        }
    }
    Ok(None)
}

fn signed(layer: &Descriptor) -> Option<(&Descriptor, &String)> {
    let signature = layer.annotations.as_ref()?.get(SIGNATURE)?;
    (layer.media_type == TEXT).then_some((layer, signature))
}
