use std::io;
use std::path::PathBuf;

use shorefast_net as net;

use crate::{deb, release, resolve, signature, spec};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Spec(#[from] spec::Problem),
    #[error("cannot understand {path:?}")]
    Configuration { path: PathBuf, source: Box<toml::de::Error> },
    #[error("cannot read {path:?}")]
    Read { path: PathBuf, source: io::Error },
    #[error("no suite given")]
    NoSuite,
    #[error("no archive is configured that has packages of {suite}")]
    NoArchive { suite: String },
    #[error("{mirror:?} is not the address of an archive")]
    Mirror { mirror: String },
    #[error("there is no keyring to check {mirror} with")]
    NoKeyring { mirror: String },
    #[error("{path:?} holds no readable key")]
    Keyring { path: PathBuf },
    #[error("cannot trust {url}")]
    Signature { url: String, source: signature::Problem },
    #[error("cannot use {url}")]
    Release { url: String, source: release::Problem },
    #[error("there is no {url}")]
    NoRelease { url: String },
    #[error("an image for {} alone does not run here: a build for {native} must be among them", there.join(", "))]
    Foreign { there: Vec<String>, native: &'static str },
    #[error("{url} has no packages of {component} for {architecture}")]
    NotOffered { url: String, component: String, architecture: String },
    #[error("{url} has another size or checksum than the archive lists")]
    Tampered { url: String },
    #[error("{url} is not readable as {what}")]
    Unreadable { url: String, what: &'static str, source: io::Error },
    #[error("cannot get {what}")]
    Fetch { what: String, source: net::Error },
    #[error("{what} is not in the cache, and the network may not be used")]
    Offline { what: String },
    #[error("cannot choose packages of {suite}")]
    Resolve { suite: String, source: resolve::Problem },
    #[error("{package} is not a package that can be unpacked")]
    Deb { package: String, source: deb::Problem },
    #[error("{path:?} is not a package lock file: {problem}")]
    Lock { path: PathBuf, problem: String },
    #[error("cannot write {path:?}")]
    Cache { path: PathBuf, source: io::Error },
}

impl Error {
    /// One line of advice for the user.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Spec(_) => "the form is packages:debian/trixie?sshfs,fuse3",
            Self::Configuration { .. } => "docs/PACKAGES.md lists the keys",
            Self::NoSuite => "pass --suite, or set suite = in /etc/shorefast/packages.toml",
            Self::NoArchive { .. } => "pass --mirror, or set mirrors in /etc/shorefast/packages.toml; this machine's apt sources name none",
            Self::Mirror { .. } => "an archive is http://…, https://… or file:/…, with the directories dists and pool below it",
            Self::NoKeyring { .. } | Self::Signature { source: signature::Problem::UnknownKey(_), .. } => {
                "name the archive's keys with --keyring FILE, or set keyring = in /etc/shorefast/packages.toml"
            }
            Self::NoRelease { .. } => "check the name of the suite and the address of the archive",
            Self::Keyring { .. } => "a keyring is a file that gpg --export writes, with or without --armor",
            Self::Signature { .. } | Self::Tampered { .. } => {
                "the mirror, or something between it and this host, changes the data; none of it was used"
            }
            Self::Release { source, .. } => source.hint()?,
            Self::Fetch { source, .. } => source.hint()?,
            Self::Offline { .. } => "run it once with the network, or import an image",
            Self::Resolve { .. } => "a package may be in another suite or component of the archive",
            Self::Deb { .. } | Self::Lock { .. } | Self::NotOffered { .. } | Self::Unreadable { .. } | Self::Read { .. } => return None,
            Self::Cache { .. } => "check the free space and the permissions",
            Self::Foreign { .. } => "name this machine's architecture, too: the image's name stands for its build here",
        })
    }
}

impl release::Problem {
    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Lacks(_) => return None,
            Self::OtherSuite { .. } => "an alias such as stable changes its meaning; use the code name",
            Self::Expired(_) => "the mirror is out of date, or this machine's clock is wrong: try another --mirror",
            Self::FromTheFuture(_) => "check this machine's clock",
            Self::RolledBack { .. } => "the mirror has an older state than before, which hides security fixes: try another --mirror",
        })
    }
}
