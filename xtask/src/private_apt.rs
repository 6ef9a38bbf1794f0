//! apt with its own sources and state: other suites, and source packages, leave no trace on this machine. Signatures of the archive
//! and checksums of the packages are verified by apt itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{apt, process};

pub(crate) struct PrivateApt {
    directory: PathBuf,
    /// Whose packages; `None`: this machine's.
    architecture: Option<String>,
}

impl PrivateApt {
    pub(crate) fn new(directory: &Path, suites: &[&str]) -> Result<Self> {
        Self::of(None, directory, suites)
    }

    pub(crate) fn of(architecture: Option<&str>, directory: &Path, suites: &[&str]) -> Result<Self> {
        let apt = Self { directory: directory.to_owned(), architecture: architecture.map(str::to_owned) };
        for needed in ["state/lists/partial", "cache/archives/partial", "packages"] {
            fs::create_dir_all(directory.join(needed)).context("cannot create directories for apt")?;
        }
        fs::write(directory.join("sources.list"), sources(&apt::mirror("bookworm")?, suites)).context("cannot write sources")?;
        fs::write(directory.join("status"), "").context("cannot write an empty package state")?;
        process::run(apt.get().arg("update"))?;
        Ok(apt)
    }

    /// The files of a package, without running anything of it.
    pub(crate) fn unpack(&self, package: &str, suite: &str, root: &Path) -> Result<()> {
        process::run(self.get().arg("download").arg(format!("{package}/{suite}")))?;
        let file = only_file_in(&self.directory.join("packages"))?;
        process::run(Command::new("dpkg-deb").arg("--extract").arg(&file).arg(root))?;
        fs::remove_file(&file).context("cannot remove the package file")
    }

    /// Packages with all that they depend on, as apt would install them on a machine that has nothing.
    pub(crate) fn download(&self, packages: &[&str], pool: &Path) -> Result<()> {
        let mut command = self.get();
        command.args(["--quiet=2", "--yes", "--download-only", "--no-install-recommends"]);
        command.arg(format!("-oDir::Cache::archives={}", pool.display()));
        process::run(command.arg("install").args(packages))
    }

    /// The source of a package as Debian builds it, with its patches applied, in the new directory `place`.
    pub(crate) fn unpack_source(&self, package: &str, suite: &str, place: &Path) -> Result<()> {
        process::run(self.get().args(["source", "--download-only"]).arg(format!("{package}/{suite}")))?;
        let packages = self.directory.join("packages");
        let description = files_in(&packages)?.into_iter().find(|file| file.extension().is_some_and(|extension| extension == "dsc"));
        let description = description.with_context(|| format!("the source of {package} has no .dsc"))?;
        process::run(Command::new("dpkg-source").arg("--extract").arg(description).arg(place))?;
        files_in(&packages)?.iter().try_for_each(|file| fs::remove_file(file).context("cannot remove the source package"))
    }

    /// What apt itself needed; nothing that was unpacked.
    pub(crate) fn discard(self) -> Result<()> {
        fs::remove_dir_all(&self.directory).context("cannot remove the package lists")
    }

    fn get(&self) -> Command {
        let mut command = Command::new("apt-get");
        let at = |name: &str| self.directory.join(name).display().to_string();
        command.current_dir(self.directory.join("packages")).args([
            format!("-oDir::State={}", at("state")),
            format!("-oDir::State::status={}", at("status")),
            format!("-oDir::Cache={}", at("cache")),
            format!("-oDir::Etc::SourceList={}", at("sources.list")),
            "-oDir::Etc::SourceParts=/dev/null".to_owned(),
            "-oAPT::Sandbox::User=root".to_owned(),
            "-oAcquire::Languages=none".to_owned(),
            // A frozen mirror is as good: an old kernel to test on is what we want.
            "-oAcquire::Check-Valid-Until=false".to_owned(),
        ]);
        for key in ["APT::Architecture", "APT::Architectures"] {
            command.args(self.architecture.iter().map(|architecture| format!("-o{key}={architecture}")));
        }
        command
    }
}

fn sources(mirror: &str, suites: &[&str]) -> String {
    let signed = "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg";
    let line = |kind: &str, suite: &str| format!("{kind} [{signed}] {mirror} {suite} main\n");
    suites.iter().flat_map(|suite| [line("deb", suite), line("deb-src", suite)]).collect()
}

fn only_file_in(directory: &Path) -> Result<PathBuf> {
    let mut files = files_in(directory)?;
    ensure!(files.len() == 1, "apt downloaded {} files to {}, not one", files.len(), directory.display());
    Ok(files.remove(0))
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}
