//! `cargo xtask kernels`: user-mode Linux kernels from Debian, to run the tests under other versions than this machine's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::private_apt::PrivateApt;
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
    let suites = KERNELS.map(|kernel| kernel.suite);
    let apt = PrivateApt::new(&unfinished.join("apt"), &suites)?;
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
    apt.discard()
}
