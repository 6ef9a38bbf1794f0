//! Images in registries: a name in, the image's documents and then its layers out; or an image in, which is sent to the registry.
//!
//! A registry, its mirrors and everything in between are not trusted: every document and every layer is verified against its digest, or is
//! not used. Mirrors are tried first, then the registry itself.

mod fetch;
mod signatures;
mod push;
mod session;
mod challenge;
pub mod credentials;
mod helper;
pub mod login;
pub mod hosts;
pub mod error;
pub mod name;

pub use credentials::Credentials;
pub use error::Error;
pub use fetch::{Blob, Coming};
pub use hosts::Hosts;
pub use name::Name;
pub use signatures::Signature;

use shorefast_net::{Client, PlainHttp, Settings};

use crate::digest::Digest;
use crate::manifest::{self, Config, Document, Manifest, Platform};
use crate::registry::session::{Access, Session};

/// The media types to ask for. The response is identified by its content.
const MEDIA_TYPES: [&str; 4] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

/// How often an endpoint is tried when there is another one.
const ATTEMPTS_WITH_ALTERNATIVE: u32 = 2;

/// Registries, with the settings and credentials to use.
#[derive(Clone, Debug)]
pub struct Registries {
    pub hosts: Hosts,
    pub credentials: Credentials,
    pub settings: Settings,
}

/// An image that was found: everything about it but its layers.
#[derive(Debug)]
pub struct Image {
    /// Of the manifest for this platform: identifies the image permanently.
    pub digest: Digest,
    /// Of what the name refers to: an index, or the manifest itself.
    pub named: Digest,
    /// Lowest first.
    pub layers: Vec<Layer>,
    /// Best first.
    sessions: Vec<Session>,
}

/// One layer: its blob, and the archive in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Of the blob, compressed or not.
    pub digest: Digest,
    pub size: u64,
    /// Of the uncompressed archive.
    pub diff_id: Digest,
}

impl Registries {
    /// As configured on this machine: registries.toml, logins, proxies.
    pub fn of_this_machine() -> Result<Self, Error> {
        let settings = Settings::from_environment().map_err(|source| Error::Fetch { host: "registries".to_owned(), source })?;
        Ok(Self { hosts: Hosts::read(hosts::FILE.as_ref())?, credentials: Credentials::from_environment(), settings })
    }

    /// The image that `name` refers to now.
    pub fn find(&self, name: &Name, platform: &Platform) -> Result<Image, Error> {
        let mut sessions = self.sessions(name, Access::Pull);
        let (winner, (named, bytes)) = first(&sessions, |session| document(session, &name.wanted(), name.digest))?;
        // The endpoint that has it is tried first for the rest; those that failed, last.
        sessions.rotate_left(winner);
        let image = name.to_string();
        let (digest, manifest) = descend(&sessions, &image, platform, named, &bytes)?;
        let (_, config) = first(&sessions, |session| small_blob(session, manifest.config.digest))?;
        let config = manifest::parse_config(&config).map_err(|problem| Error::Malformed { image: image.clone(), problem })?;
        config.check_platform(platform).map_err(|source| foreign(&image, source))?;
        Ok(Image { digest, named, layers: layers(&image, &manifest, &config)?, sessions })
    }

    /// Best first; the registry itself is the last.
    fn sessions(&self, name: &Name, access: Access) -> Vec<Session> {
        let endpoints = self.hosts.endpoints(name);
        let last = endpoints.len().saturating_sub(1);
        let session = |(position, endpoint): (usize, hosts::Endpoint)| {
            let attempts = if position < last { ATTEMPTS_WITH_ALTERNATIVE } else { self.settings.attempts };
            let mut ca_files = self.settings.ca_files.clone();
            ca_files.extend(endpoint.ca.clone());
            let plain_http = PlainHttp::OnlyFrom(self.hosts.plain());
            let settings = Settings { ca_files, plain_http, attempts, ..self.settings.clone() };
            Session::new(endpoint, Client::new(&settings), self.credentials.clone(), access)
        };
        endpoints.into_iter().enumerate().map(session).collect()
    }
}

/// The manifest for `platform`, through any nested indexes.
fn descend(sessions: &[Session], image: &str, platform: &Platform, named: Digest, bytes: &[u8]) -> Result<(Digest, Manifest), Error> {
    let malformed = |problem| Error::Malformed { image: image.to_owned(), problem };
    let (mut digest, mut document_found) = (named, manifest::parse(bytes).map_err(malformed)?);
    for _ in 0..manifest::NESTING {
        match document_found {
            Document::Manifest(manifest) => return Ok((digest, manifest)),
            Document::Index(builds) => {
                digest = manifest::choose(&builds, platform).map_err(|source| foreign(image, source))?.digest;
                let (_, (_, bytes)) = first(sessions, |session| document(session, &digest.to_string(), Some(digest)))?;
                document_found = manifest::parse(&bytes).map_err(malformed)?;
            }
        }
    }
    Err(malformed("its indexes refer to each other in a circle or too deeply".to_owned()))
}

fn layers(image: &str, manifest: &Manifest, config: &Config) -> Result<Vec<Layer>, Error> {
    let malformed = |problem| Error::Malformed { image: image.to_owned(), problem };
    let diff_ids = &config.rootfs.diff_ids;
    if diff_ids.len() != manifest.layers.len() {
        return Err(malformed(format!("it has {} layers, but its configuration lists {}", manifest.layers.len(), diff_ids.len())));
    }
    if let Some(other) = manifest.layers.iter().find(|layer| !manifest::is_layer(&layer.media_type)) {
        return Err(malformed(format!("it has a layer of type {:?}, which is no archive of files", other.media_type)));
    }
    let both = manifest.layers.iter().zip(diff_ids);
    Ok(both.map(|(layer, diff_id)| Layer { digest: layer.digest, size: layer.size, diff_id: *diff_id }).collect())
}

fn foreign(image: &str, source: manifest::NoneFits) -> Error {
    Error::Foreign { image: image.to_owned(), wanted: source.wanted, there: source.there }
}

/// A manifest or index, and its digest, verified if it is known beforehand.
fn document(session: &Session, wanted: &str, expected: Option<Digest>) -> Result<(Digest, Vec<u8>), Error> {
    let answer = session.get(&format!("manifests/{wanted}"), &MEDIA_TYPES, manifest::LONGEST)?;
    if answer.status == 404 {
        let separator = if expected.is_some() { '@' } else { ':' };
        let name = format!("{}{separator}{wanted}", session.endpoint.repository);
        return Err(Error::Missing { host: session.endpoint.host.clone(), name });
    }
    let announced = answer.header("docker-content-digest").and_then(|text| text.parse().ok());
    let body = answer.success().map_err(|source| session.failed(source))?;
    let digest = Digest::of(&body);
    Ok((digest, verified(session, expected.or(announced).unwrap_or(digest), body)?))
}

fn small_blob(session: &Session, digest: Digest) -> Result<Vec<u8>, Error> {
    let answer = session.get(&format!("blobs/{digest}"), &[], manifest::LONGEST)?;
    verified(session, digest, answer.success().map_err(|source| session.failed(source))?)
}

fn verified(session: &Session, expected: Digest, body: Vec<u8>) -> Result<Vec<u8>, Error> {
    let found = Digest::of(&body);
    if found == expected { Ok(body) } else { Err(Error::WrongDigest { host: session.endpoint.host.clone(), expected, found }) }
}

/// The first endpoint that has it. The error of the last one is returned: that is the registry itself.
fn first<T>(sessions: &[Session], ask: impl Fn(&Session) -> Result<T, Error>) -> Result<(usize, T), Error> {
    let mut last = None;
    for (position, session) in sessions.iter().enumerate() {
        match ask(session) {
            Ok(found) => return Ok((position, found)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| Error::Malformed { image: String::new(), problem: "its registry has no address".to_owned() }))
}
