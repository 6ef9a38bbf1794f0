//! `shorefast image build`: an image from distribution packages.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use shorefast_engine::Error;
use shorefast_image::packaged::{self, Lock, PackagesError, Spec, Wishes};
use shorefast_image::source::Network;
use shorefast_image::{Digest, Reference, Store};

#[derive(Debug, Args)]
pub struct BuildArguments {
    /// Packages to install; dependencies and a few base tools are added
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', required_unless_present = "lock")]
    packages: Vec<String>,
    /// Release of the distribution; default: the configured one, or this machine's
    #[arg(long, value_name = "SUITE")]
    suite: Option<String>,
    /// The archive to download from; several are tried in order; default: the configured ones, or those of this machine's apt
    #[arg(long = "mirror", value_name = "URL")]
    mirrors: Vec<String>,
    /// Keys that may sign the archive; default: this machine's keys
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
    /// Rebuild exactly the packages in this file; needs no archive for packages that were downloaded before
    #[arg(long, value_name = "FILE", conflicts_with_all = ["packages", "suite", "keyring"])]
    lock: Option<PathBuf>,
    /// Write the list of packages used, for --lock
    #[arg(long, value_name = "FILE")]
    write_lock: Option<PathBuf>,
    /// Use only what was downloaded before
    #[arg(long)]
    offline: bool,
    /// As in `--image NAME`; default: packages:debian/SUITE?NAME,…
    name: Option<String>,
}

pub fn run(arguments: &BuildArguments, store: &Store) -> Result<Digest, Error> {
    let network = if arguments.offline { Network::Forbidden } else { Network::Allowed };
    let lock = match &arguments.lock {
        Some(file) => replayed(file, &arguments.mirrors)?,
        None => {
            let spec = Spec::new(arguments.suite.as_deref(), arguments.packages.iter().map(String::as_str)).map_err(packages)?;
            let wishes = Wishes { mirrors: arguments.mirrors.clone(), keyring: arguments.keyring.clone() };
            packaged::lock(&spec, &wishes, &store.means(network))?
        }
    };
    if let Some(file) = &arguments.write_lock {
        fs::write(file, lock.to_text()).map_err(|source| packages(PackagesError::Cache { path: file.clone(), source }))?;
    }
    let name: Reference = arguments.name.as_deref().unwrap_or(&lock.packages).parse()?;
    Ok(store.build(lock, &name, network)?)
}

fn replayed(file: &PathBuf, mirrors: &[String]) -> Result<Lock, Error> {
    let text = fs::read_to_string(file).map_err(|source| packages(PackagesError::Read { path: file.clone(), source }))?;
    let mut lock = Lock::from_text(&text, file).map_err(packages)?;
    lock.prefer_mirrors(mirrors);
    Ok(lock)
}

fn packages(error: impl Into<PackagesError>) -> Error {
    shorefast_image::Error::Packages(error.into()).into()
}
