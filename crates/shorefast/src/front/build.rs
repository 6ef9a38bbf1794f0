//! `shorefast image build`: an image from distribution packages.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use shorefast_engine::Error;
use shorefast_image::packaged::{self, Architecture, Lock, PackagesError, Spec, Wishes};
use shorefast_image::source::Network;
use shorefast_image::{Reference, Store};

#[derive(Debug, Args)]
pub struct BuildArguments {
    /// Packages to install; dependencies and a few base tools are added
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', required_unless_present = "locks")]
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
    /// A kind of machine to build for, such as amd64 or arm64; several make one image for all of them, this machine's among them
    #[arg(long = "arch", value_name = "ARCH")]
    architectures: Vec<Architecture>,
    /// Rebuild exactly the packages in this file; needs no archive for packages that were downloaded before. One for each architecture
    #[arg(long = "lock", value_name = "FILE", conflicts_with_all = ["packages", "suite", "keyring", "architectures"])]
    locks: Vec<PathBuf>,
    /// Write the list of packages used, for --lock; with several --arch, one for each: FILE.ARCH
    #[arg(long, value_name = "FILE")]
    write_lock: Option<PathBuf>,
    /// Use only what was downloaded before
    #[arg(long)]
    offline: bool,
    /// As in `--image NAME`; default: packages:debian/SUITE?NAME,…
    name: Option<String>,
}

/// The digest; of builds for several kinds of machines a line for each.
pub fn run(arguments: &BuildArguments, store: &Store) -> Result<String, Error> {
    let network = if arguments.offline { Network::Forbidden } else { Network::Allowed };
    let mut locks = if arguments.locks.is_empty() {
        let spec = Spec::new(arguments.suite.as_deref(), arguments.packages.iter().map(String::as_str)).map_err(packages)?;
        let native = [Architecture::native()];
        let wanted = if arguments.architectures.is_empty() { &native[..] } else { &arguments.architectures };
        let lock = |architecture: &Architecture| {
            let (mirrors, keyring) = (arguments.mirrors.clone(), arguments.keyring.clone());
            packaged::lock(&spec, &Wishes { mirrors, keyring, architecture: Some(*architecture) }, &store.means(network))
        };
        wanted.iter().map(lock).collect::<Result<Vec<_>, _>>()?
    } else {
        arguments.locks.iter().map(|file| replayed(file, &arguments.mirrors)).collect::<Result<_, _>>()?
    };
    locks.sort_by(|one, other| one.architecture.cmp(&other.architecture));
    locks.dedup_by(|one, other| one.architecture == other.architecture);
    let architectures: Vec<_> = locks.iter().map(|lock| lock.architecture.clone()).collect();
    for lock in &locks {
        let Some(file) = &arguments.write_lock else { break };
        let file = if locks.len() > 1 { PathBuf::from(format!("{}.{}", file.display(), lock.architecture)) } else { file.clone() };
        fs::write(&file, lock.to_text()).map_err(|source| packages(PackagesError::Cache { path: file, source }))?;
    }
    let name: Reference = arguments.name.as_deref().unwrap_or(&locks[0].packages).parse()?;
    let digests = store.build(locks, &name, network)?;
    Ok(match digests.as_slice() {
        [digest] => format!("{digest}\n"),
        digests => architectures.iter().zip(digests).map(|(architecture, digest)| format!("{architecture} {digest}\n")).collect(),
    })
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
