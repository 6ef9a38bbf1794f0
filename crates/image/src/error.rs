//! Errors on the way from a reference to a root filesystem.

use std::io;
use std::path::PathBuf;

use crate::digest::Digest;
use crate::manifest::Platform;
use crate::signature::Problem;
use crate::{layers, registry, stream};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("image reference {text:?}: {problem}")]
    Reference { text: String, problem: &'static str },
    #[error("cannot use {path:?} as an image")]
    Open { path: PathBuf, source: io::Error },
    #[error("{path:?} is not a root filesystem: {problem}")]
    NotARoot { path: PathBuf, problem: &'static str },
    #[error("cannot use {image:?}: {problem}")]
    Malformed { image: String, problem: String },
    #[error("{image:?} holds {}, and none is called {}", list(there), wanted.as_deref().unwrap_or("by no name at all"))]
    NoSuchTag { image: String, wanted: Option<String>, there: Vec<String> },
    #[error("{image:?} is not for this machine: wanted {wanted}, there is {}", list(there))]
    Platform { image: String, wanted: Platform, there: Vec<String> },
    #[error("a part of {image:?} is damaged: expected {expected}, found {found}")]
    Digest { image: String, expected: Digest, found: Digest },
    #[error("cannot unpack layer {layer} of {image:?}")]
    Layer { image: String, layer: usize, source: layers::Error },
    #[error("layer {layer} of {image:?} is damaged")]
    Blob { image: String, layer: usize, source: stream::Error },
    #[error("cannot get {image} from a registry")]
    Registry { image: String, source: Box<registry::Error> },
    #[error("{image} must be signed by a key of {keys:?} to be used here")]
    Signature { image: String, keys: PathBuf, source: Box<Problem> },
    #[error("cannot use {path:?} as keys that sign images")]
    Keys { path: PathBuf, source: io::Error },
    #[error("cannot push to {image}")]
    Push { image: String, source: Box<registry::Error> },
    #[error("cannot export to {path:?}")]
    Export { path: PathBuf, source: io::Error },
    #[error("cannot make an image of packages")]
    Packages(#[from] shorefast_packages::Error),
    #[error("cannot unpack the package {package}")]
    Package { package: String, source: layers::Error },
    #[error("the image {reference} is not here")]
    Absent { reference: String },
    #[error("there is no image {name:?} in the store{}", near.as_ref().map(|near| format!("; did you mean {near}?")).unwrap_or_default())]
    Unknown { name: String, near: Option<String> },
    #[error("the image {name:?} is in use by {}", list(users))]
    InUse { name: String, users: Vec<String> },
    #[error("cannot use the image store {path:?}")]
    Store { path: PathBuf, source: io::Error },
}

impl Error {
    /// One line of advice for the user.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Export { .. } if self.is_full() => "free some space there, or choose another place",
            _ if self.is_full() => "free some space, or choose another place with --root",
            Self::Reference { .. } => {
                "an image is NAME[:TAG] of a registry, oci:DIR, oci-archive:FILE, docker-archive:FILE, tar:FILE, dir:DIR, or packages:debian/SUITE?NAME,…"
            }
            Self::NotARoot { .. } => "an image is a whole root filesystem, for example made by mmdebstrap or `podman export`",
            Self::NoSuchTag { .. } => "name one of them after the path, separated by a colon",
            Self::Platform { .. } => "get a build for this machine's architecture",
            Self::Digest { .. } | Self::Blob { source: stream::Error::Digest { .. } | stream::Error::DiffId { .. }, .. } => {
                "the image was damaged or tampered with: get it again, from a trusted source"
            }
            Self::Layer { source: layers::Error::Limit { what, .. }, .. }
            | Self::Package { source: layers::Error::Limit { what, .. }, .. } => match *what {
                "bytes" => "if the image is meant to be that large, raise --max-image-size",
                "entries" => "if the image is meant to be that large, raise --max-image-entries",
                _ => return None,
            },
            Self::Absent { reference } => {
                return Some(format!(
                    "`shorefast image pull '{reference}'` gets it; without a network, `shorefast image import oci-archive:FILE '{reference}'` takes it from a file (docs/IMAGES.md)"
                ));
            }
            Self::Registry { source, .. } | Self::Push { source, .. } => source.hint()?,
            Self::Signature { source, .. } => return Some(of_signature(source)),
            Self::Keys { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "put the public key that `cosign generate-key-pair` wrote there"
            }
            Self::Keys { .. } => {
                "it must belong to root and hold one or more public keys in PEM, ECDSA on P-256, as `cosign generate-key-pair` writes them"
            }
            Self::Export { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                "choose another name, or remove the existing file: an image can be added only to a directory in OCI image layout"
            }
            Self::Export { .. } => "check the directory and its permissions",
            Self::Packages(error) => error.hint()?,
            Self::Unknown { .. } => "`shorefast image list` shows all images",
            Self::InUse { .. } => "unmount first; an update needs no removal: new mounts use the image that is pulled under the same name",
            Self::Store { .. } => "choose another place with --root",
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// A registry requires a login, or another one.
    pub fn is_about_credentials(&self) -> bool {
        use registry::Error::{Credentials, Helper, NoCredentials, WrongCredentials};
        let source = if let Self::Registry { source, .. } | Self::Push { source, .. } = self { Some(&**source) } else { None };
        matches!(source, Some(Credentials { .. } | Helper { .. } | NoCredentials { .. } | WrongCredentials { .. }))
    }

    fn is_full(&self) -> bool {
        let mut cause: Option<&dyn std::error::Error> = Some(self);
        while let Some(error) = cause {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            if matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)) {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

fn of_signature(problem: &Problem) -> String {
    let text = match problem {
        Problem::Unsigned | Problem::OtherKey { .. } => {
            "`cosign sign --key KEY IMAGE@DIGEST` signs it; the signature is required by `signed_by` of the client or of registries.toml"
        }
        Problem::OtherDigest { .. } | Problem::Text { .. } => "do not use it: the signature was moved here from another image",
        Problem::OtherName { .. } => {
            "use it under the name that it was signed for, with a mirror in registries.toml where it lies elsewhere"
        }
        Problem::NoRegistry => "name an image of a registry, or take `signed_by` out of the client's definition",
        Problem::Offline => "`shorefast image pull --signed-by KEYS IMAGE` verifies it while there is a network",
        Problem::Registry(error) => return error.hint().unwrap_or("try again").to_owned(),
    };
    text.to_owned()
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
