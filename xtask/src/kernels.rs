//! `cargo xtask kernels`: user-mode Linux kernels from Debian, to run the tests under other versions than this machine's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{apt, cache, process};

pub(crate) struct Kernel {
    pub(crate) version: &'static str,
    suite: &'static str,
    libc: Libc,
}

/// Kernels of newer suites are linked against a newer libc than Debian 12's.
enum Libc {
    OfThisMachine,
    OfNewerSuite,
}

/// sid moves on: its version here is what it had when this was written, `uname -r` in the guest tells what it is now.
pub(crate) const KERNELS: [Kernel; 3] = [
    Kernel { version: "6.1", suite: "bookworm", libc: Libc::OfThisMachine },
    Kernel { version: "6.12", suite: "trixie", libc: Libc::OfNewerSuite },
    Kernel { version: "7.2", suite: "sid", libc: Libc::OfNewerSuite },
];

const LIBC_SUITE: &str = "trixie";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// A fetched kernel: the program that is the guest machine, and its modules.
pub(crate) struct Installed {
    pub(crate) program: PathBuf,
    pub(crate) modules: PathBuf,
}

pub(crate) fn run() -> Result<()> {
    let cache = cache::directory()?;
    let _lock = cache::lock(&cache)?;
    apt::ensure_installed(&["kmod", "patchelf"])?;
    let place = cache.join("kernels");
    let suites = KERNELS.map(|kernel| kernel.suite).join(" ");
    cache::build_once(&place, &format!("1 {suites}\n"), |unfinished| fetch_all(unfinished, &place))
}

pub(crate) fn installed(version: &str) -> Result<Installed> {
    let root = cache::directory()?.join("kernels").join(version);
    let modules = root.join("usr/lib/uml/modules");
    let release = fs::read_dir(&modules)
        .with_context(|| format!("no kernel {version}: run `cargo xtask kernels`, or name one of 6.1, 6.12, 7.2"))?
        .next()
        .context("the kernel came without modules")??;
    Ok(Installed { program: root.join("usr/bin/linux.uml"), modules: release.path() })
}

fn fetch_all(unfinished: &Path, place: &Path) -> Result<()> {
    let apt = PrivateApt::new(&unfinished.join("apt"))?;
    apt.unpack("libc6", LIBC_SUITE, &unfinished.join("libc"))?;
    for kernel in &KERNELS {
        let root = unfinished.join(kernel.version);
        apt.unpack("user-mode-linux", kernel.suite, &root)?;
        if let Libc::OfNewerSuite = kernel.libc {
            // The kernel starts itself a second time, so calling it through the newer loader would not be enough.
            let libraries = place.join("libc").join(LIBRARIES);
            process::run(
                Command::new("patchelf")
                    .arg("--set-interpreter")
                    .arg(libraries.join("ld-linux-x86-64.so.2"))
                    .arg("--set-rpath")
                    .arg(libraries)
                    .arg(root.join("usr/bin/linux.uml")),
            )?;
        }
    }
    fs::remove_dir_all(&apt.directory).context("cannot remove the package lists")
}

/// apt with its own sources and state, so that suites which this machine does not follow leave no trace on it. Signatures of
/// the archive and checksums of the packages are verified by apt itself.
struct PrivateApt {
    directory: PathBuf,
}

impl PrivateApt {
    fn new(directory: &Path) -> Result<Self> {
        let apt = Self { directory: directory.to_owned() };
        for needed in ["state/lists/partial", "cache/archives/partial", "packages"] {
            fs::create_dir_all(directory.join(needed)).context("cannot create directories for apt")?;
        }
        fs::write(directory.join("sources.list"), sources(&apt::mirror("bookworm")?)).context("cannot write sources")?;
        fs::write(directory.join("status"), "").context("cannot write an empty package state")?;
        process::run(apt.get().arg("update"))?;
        Ok(apt)
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
        command
    }

    fn unpack(&self, package: &str, suite: &str, root: &Path) -> Result<()> {
        process::run(self.get().arg("download").arg(format!("{package}/{suite}")))?;
        let file = only_file_in(&self.directory.join("packages"))?;
        process::run(Command::new("dpkg-deb").arg("--extract").arg(&file).arg(root))?;
        fs::remove_file(&file).context("cannot remove the package file")
    }
}

fn sources(mirror: &str) -> String {
    let signed = "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg";
    KERNELS.map(|kernel| format!("deb [{signed}] {mirror} {} main\n", kernel.suite)).concat()
}

fn only_file_in(directory: &Path) -> Result<PathBuf> {
    let mut files = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let first = files.next().context("apt downloaded nothing")??.path();
    ensure!(files.next().is_none(), "apt downloaded more than one file to {}", directory.display());
    Ok(first)
}
