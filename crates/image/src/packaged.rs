//! In: a package spec or lock. Out: an image made of distribution packages, resolved first, then unpacked one by one.

use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use shorefast_net as net;
pub use shorefast_packages::{Architecture, Error as PackagesError, Lock, Spec, Wishes};
use shorefast_packages::{Supply, ahead, archive, finish, lock, machine, rules, skeleton, sources};

use crate::digest::Digest;
use crate::error::Error;
use crate::layers::{Rules, Unpacking};
use crate::source::{Content, Network, Source};

/// What is needed to fetch packages.
#[derive(Clone)]
pub struct Means {
    /// Where downloads are kept.
    pub cache: PathBuf,
    pub network: Network,
    pub progress: Arc<dyn net::Progress>,
}

impl std::fmt::Debug for Means {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Means").field("cache", &self.cache).field("network", &self.network).finish_non_exhaustive()
    }
}

impl Means {
    fn with<T>(&self, act: impl FnOnce(&Supply<'_>) -> Result<T, PackagesError>) -> Result<T, PackagesError> {
        let client = machine::client()?;
        let network = match self.network {
            Network::Allowed => shorefast_packages::Network::Use(&client),
            Network::Forbidden => shorefast_packages::Network::Avoid,
        };
        act(&Supply { cache: &self.cache, network, progress: &*self.progress })
    }
}

/// The archive that packages would come from.
#[derive(Debug)]
pub struct Origin(sources::Source);

pub fn origin(spec: &Spec) -> Result<Origin, PackagesError> {
    let machine = machine::read(machine::CONFIGURATION.as_ref(), &spec.distribution)?;
    let first = sources::choose(spec, &Wishes::default(), &machine)?.into_iter().next();
    first.map(Origin).ok_or(PackagesError::NoSuite)
}

/// For display.
impl std::fmt::Display for Origin {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(out)
    }
}

impl Origin {
    /// Whether it can be reached and trusted. Fetches its signed list and nothing else.
    pub fn reach(&self, network: Network) -> Result<(), PackagesError> {
        // Nothing is kept, so there is no directory for it.
        let means = Means { cache: PathBuf::new(), network, progress: Arc::new(net::Silent) };
        means.with(|supply| archive::look(&self.0, supply, SystemTime::now()))
    }
}

/// Resolves the exact packages.
pub fn lock(spec: &Spec, wishes: &Wishes, means: &Means) -> Result<Lock, Error> {
    let machine = machine::read(machine::CONFIGURATION.as_ref(), &spec.distribution)?;
    Ok(means.with(|supply| lock::make(spec, wishes, &machine, supply))?)
}

/// Of the image that is made of them.
pub fn digest(lock: &Lock) -> Result<Digest, Error> {
    let wrong = |_| Error::Malformed { image: lock.packages.clone(), problem: format!("{:?} is no digest", lock.digest) };
    lock.digest.parse().map_err(wrong)
}

/// The image that is made of them. Nothing is downloaded before it is unpacked.
pub fn source(lock: Lock, means: Means) -> Result<Source, Error> {
    let name = lock.packages.clone();
    let digest = digest(&lock)?;
    let packages = lock.list().map(|(name, version)| (name.to_owned(), version.to_owned())).collect();
    let content = Content::Made(Box::new(move |unpacking| unpack(&lock, &means, unpacking)));
    Ok(Source { name, digest: Some(digest), content, packages, signatures: Vec::new() })
}

fn unpack(lock: &Lock, means: &Means, unpacking: &mut Unpacking) -> Result<(), Error> {
    let debs = means.with(|supply| lock.fetch(supply))?;
    let ours = |source| Error::Package { package: "of our own files".to_owned(), source };
    let made = |error| ours(crate::layers::Error::Read(error));
    let everything = |_: &[u8]| true;
    let layer = skeleton::layer(&lock.architecture).map_err(made)?;
    unpacking.apply(&layer[..], Rules::Plain, everything).map_err(ours)?;
    ahead::in_order(&debs, |deb, files| {
        let failed = |source| Error::Package { package: deb.name.clone(), source };
        unpacking.apply(BufReader::with_capacity(128 * 1024, files), Rules::Package, rules::keeps).map_err(failed)
    })?;
    // It was known when the lock was read.
    let architecture = lock.architecture.parse().unwrap_or_else(|_| Architecture::native());
    let layer = finish::layer(unpacking.root(), architecture).map_err(made)?;
    unpacking.apply(&layer[..], Rules::Package, everything).map_err(ours)
}
