//! In: an image that was found in a registry, and the keys that may have signed it. Out: which of them did, or why it must not be used.
//!
//! Signatures are those of cosign with a key: beside the image there is another one, with the tag `sha256-HEX.sig`, whose layers are texts that
//! say what was signed, each with its signature as an annotation. The registry, its mirrors and all who can write to them are not trusted: a text
//! counts only if one of the given keys has signed it, and only for the digest and the name in it. No other server is asked, so no sigstore
//! server is needed.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};
use shorefast_trust::Chosen;
use webpki::ring::ECDSA_P256_SHA256;
use webpki::{Error as WebpkiError, RawPublicKeyEntity};

use crate::digest::Digest;
use crate::registry::{self, Image, Name, Signature};

/// What cosign writes for images, and nothing else.
const KIND: &str = "cosign container image signature";

/// Public keys of one file, any of which may have signed an image.
#[derive(Clone, Debug)]
pub struct Keys {
    path: PathBuf,
    keys: Vec<Key>,
}

#[derive(Clone, Debug)]
struct Key {
    /// Of its SubjectPublicKeyInfo.
    fingerprint: Digest,
    key: SubjectPublicKeyInfoDer<'static>,
}

impl Key {
    fn verify(&self, text: &[u8], signature: &[u8]) -> Result<(), WebpkiError> {
        RawPublicKeyEntity::try_from(&self.key)?.verify_signature(ECDSA_P256_SHA256, text, signature)
    }

    /// Verifies an empty text: a key of this kind reports a wrong signature, any other key an unsupported kind of signature.
    fn is_of_this_kind(&self) -> bool {
        matches!(self.verify(b"", b""), Err(WebpkiError::InvalidSignatureForPublicKey))
    }
}

/// The fact that a key has signed an image, and under which name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    pub key: Digest,
    pub identity: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("it has no signature")]
    Unsigned,
    #[error("it is signed, but by no key of {keys:?}")]
    OtherKey { keys: PathBuf },
    #[error("its signature is for another image, {found}")]
    OtherDigest { found: String },
    #[error("its signature is for {found:?}, which is another name")]
    OtherName { found: String },
    #[error("its signature is for something that is not an image: {problem}")]
    Text { problem: String },
    #[error("it does not come from a registry, and only images of registries have signatures")]
    NoRegistry,
    #[error("it was not verified when it was fetched, and the network may not be used now")]
    Offline,
    #[error("its signature cannot be fetched")]
    Registry(#[source] registry::Error),
}

impl Keys {
    /// One or more keys, as `cosign generate-key-pair` writes them. A user who can change that file decides what root runs.
    pub fn read(path: &Path) -> io::Result<Self> {
        let pem = shorefast_trust::read(path, Chosen::ByPlace)?;
        Self::parse(path, &pem).map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem))
    }

    fn parse(path: &Path, pem: &[u8]) -> Result<Self, String> {
        let key = |der: Result<SubjectPublicKeyInfoDer<'_>, rustls_pki_types::pem::Error>| {
            let der = der.map_err(|error| format!("it is no PEM file: {error}"))?;
            let key = Key { fingerprint: Digest::of(&der), key: der.into_owned() };
            if key.is_of_this_kind() { Ok(key) } else { Err("it holds a key that is not ECDSA on P-256".to_owned()) }
        };
        let keys = SubjectPublicKeyInfoDer::pem_slice_iter(pem).map(key).collect::<Result<Vec<_>, String>>()?;
        if keys.is_empty() { Err("it holds no public key".to_owned()) } else { Ok(Self { path: path.to_owned(), keys }) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the remembered signatures of an image are enough for these keys and this name.
    pub fn accept(&self, signed: &Signed, name: &Name) -> bool {
        self.keys.iter().any(|key| key.fingerprint == signed.key) && is_for(&signed.identity, name)
    }

    /// Returns a valid signature of the image. If there is none, the problem of the one that came closest is returned.
    pub fn verify(&self, image: &Image, name: &Name) -> Result<Signed, Problem> {
        let mut nearest = Problem::Unsigned;
        let found = image.any_signature(|signature| match self.judge(&signature, &[image.named, image.digest], name) {
            Ok(signed) => Some(signed),
            Err(problem) => {
                if problem.nearness() > nearest.nearness() {
                    nearest = problem;
                }
                None
            }
        });
        match found {
            Ok(Some(signed)) => Ok(signed),
            // A problem with a signature that was found says more than an endpoint that could not be asked.
            Err(error) if nearest.nearness() == 0 => Err(Problem::Registry(error)),
            Ok(None) | Err(_) => Err(nearest),
        }
    }

    /// Checks the signature first: a text that no known key has signed is not parsed.
    fn judge(&self, signature: &Signature, digests: &[Digest], name: &Name) -> Result<Signed, Problem> {
        let other_key = || Problem::OtherKey { keys: self.path.clone() };
        let bytes = BASE64.decode(signature.base64.trim()).map_err(|_| other_key())?;
        let key = self.keys.iter().find(|key| key.verify(&signature.text, &bytes).is_ok()).ok_or_else(other_key)?;
        let Text { critical } = serde_json::from_slice(&signature.text).map_err(|error| Problem::Text { problem: error.to_string() })?;
        if critical.kind != KIND {
            return Err(Problem::Text { problem: format!("its type is {:?}", critical.kind) });
        }
        let digest = critical.image.digest;
        if !digests.iter().any(|known| known.to_string() == digest) {
            return Err(Problem::OtherDigest { found: digest });
        }
        let identity = critical.identity.name;
        if is_for(&identity, name) { Ok(Signed { key: key.fingerprint, identity }) } else { Err(Problem::OtherName { found: identity }) }
    }
}

impl Problem {
    /// How much of a signature was right when this was found.
    fn nearness(&self) -> u8 {
        match self {
            Self::Unsigned | Self::NoRegistry | Self::Offline | Self::Registry(_) => 0,
            Self::OtherKey { .. } => 1,
            Self::Text { .. } => 2,
            Self::OtherDigest { .. } => 3,
            Self::OtherName { .. } => 4,
        }
    }
}

/// Whether something signed as `identity` may be used as `name`: the same repository and, where a tag was signed, that tag or a digest. cosign itself
/// signs no tag unless it is told to.
fn is_for(identity: &str, name: &Name) -> bool {
    let Ok(signed) = identity.parse::<Name>() else { return false };
    let is_same_repository = signed.host == name.host && signed.repository == name.repository;
    is_same_repository && (signed.tag.is_none() || signed.tag == name.tag || name.digest.is_some())
}

/// The "simple signing" format of containers/image, as far as it is used. `optional` is for display.
#[derive(Deserialize)]
struct Text {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    identity: Identity,
    image: SignedImage,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Identity {
    #[serde(rename = "docker-reference")]
    name: String,
}

#[derive(Deserialize)]
struct SignedImage {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `openssl ecparam -name prime256v1 -genkey | openssl ec -pubout`
    const KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEKlQSMgjDpa97dRmQceNJC9rvrcDH
cW39kUtvRQY6an0L0vH++eCsalLOnBbczDBFJTWuESGPBuC+jx8aZGSbrg==
-----END PUBLIC KEY-----
";

    #[test]
    fn a_name_that_was_signed_is_the_one_that_is_asked_for() {
        let digest = format!("lab.example/a@{}", Digest::of(b""));
        let rows = [
            ("lab.example/a", "lab.example/a:1", true),
            ("lab.example/a", &digest, true),
            ("lab.example/a:1", "lab.example/a:1", true),
            ("lab.example/a:1", "lab.example/a:2", false),
            ("lab.example/a:1", &digest, true),
            ("lab.example/b", "lab.example/a:1", false),
            ("other.example/a", "lab.example/a:1", false),
            ("lab.example/a/b", "lab.example/a:1", false),
            ("index.docker.io/library/debian", "debian:12", true),
            ("", "lab.example/a", false),
            ("lab.example/A", "lab.example/a", false),
        ];
        for (identity, name, expected) in rows {
            assert_eq!(is_for(identity, &name.parse().unwrap()), expected, "{identity:?} for {name}");
        }
    }

    #[test]
    fn a_key_file_may_hold_several_keys_and_nothing_else() {
        let parse = |text: &str| Keys::parse(Path::new("/keys"), text.as_bytes()).map(|keys| keys.keys.len());
        assert_eq!(parse(KEY), Ok(1));
        assert_eq!(parse(&format!("the vendor's, until 2027\n{KEY}{KEY}")), Ok(2));
        let rows = [
            ("nothing", String::new(), "no public key"),
            ("a certificate", KEY.replace("PUBLIC KEY", "CERTIFICATE"), "no public key"),
            ("a private key", KEY.replace("PUBLIC KEY", "PRIVATE KEY"), "no public key"),
            ("a half", KEY.replace("-----END PUBLIC KEY-----", ""), "no PEM"),
            ("another kind of key", ED25519.to_owned(), "not ECDSA"),
            ("a good one, and one that is not", format!("{KEY}{ED25519}"), "not ECDSA"),
        ];
        for (name, text, part) in rows {
            let problem = parse(&text).expect_err(name);
            assert!(problem.contains(part), "{name}: {problem}");
        }
    }

    const ED25519: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA6J4RhvE8aC2aVv2Z++B3sk8BmunRufm+MesMsLFi/m0=
-----END PUBLIC KEY-----
";
}
