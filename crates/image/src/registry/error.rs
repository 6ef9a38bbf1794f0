use std::path::PathBuf;

use crate::digest::Digest;
use crate::manifest::Platform;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path:?}: {problem}")]
    Hosts { path: PathBuf, problem: String },
    #[error("cannot read credentials from {path:?}: {problem}")]
    Credentials { path: PathBuf, problem: String },
    #[error("credential helper {program}: {problem}")]
    Helper { program: String, problem: String },
    #[error("{host} requires a login for {repository}, and there are no credentials")]
    NoCredentials { host: String, repository: String },
    #[error("{host} does not accept the credentials for {repository}")]
    WrongCredentials { host: String, repository: String },
    #[error("{host} requires a kind of authentication that Shorefast does not support")]
    Challenge { host: String },
    #[error(
        "{host} wants its login sent to {server}, which is another server (token_servers = [{server:?}] below [{host:?}] in /etc/shorefast/registries.toml allows it)"
    )]
    TokenServer { host: String, server: String },
    #[error("{host} has no {name}")]
    Missing { host: String, name: String },
    #[error("wrong checksum from {host}: expected {expected}, got {found}")]
    WrongDigest { host: String, expected: Digest, found: Digest },
    #[error("cannot use {image}: {problem}")]
    Malformed { image: String, problem: String },
    #[error("{image} is not for this machine: wanted {wanted}, there is {}", .there.join(", "))]
    Foreign { image: String, wanted: Platform, there: Vec<String> },
    #[error("cannot ask {host}")]
    Fetch { host: String, source: shorefast_net::Error },
    #[error("cannot send to {host}")]
    Send { host: String, source: shorefast_net::Error },
}

impl Error {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoCredentials { .. } => {
                Some("log in with `podman login` or `docker login`, or check the name: registries say this for missing images, too")
            }
            Self::WrongCredentials { .. } => Some("log in again with `podman login` or `docker login`"),
            Self::TokenServer { .. } => Some("allow it only if that server belongs to the registry: it gets the login"),
            Self::Missing { .. } => Some("check repository and tag, for example with `skopeo list-tags`"),
            Self::WrongDigest { .. } => Some("the registry, or something between it and this host, changes the data; none of it was used"),
            Self::Foreign { .. } => Some("get a build for this machine's architecture"),
            Self::Send { source: shorefast_net::Error::Status { status: 404 | 405, .. }, .. } => {
                Some("check the name, and whether the registry accepts images at all: caches and mirrors do not")
            }
            Self::Fetch { source, .. } | Self::Send { source, .. } => source.hint(),
            Self::Helper { .. } => Some("run the helper by hand: echo HOST | docker-credential-NAME get"),
            Self::Hosts { .. } | Self::Credentials { .. } | Self::Challenge { .. } | Self::Malformed { .. } => None,
        }
    }
}
