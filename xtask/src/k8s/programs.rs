//! The programs of a cluster: Kubernetes from Debian's source package, everything else from Debian's binaries. Built once, outside the
//! checkout; nothing is installed on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::private_apt::PrivateApt;
use crate::{apt, cache, process};

/// The last Kubernetes in Debian, and the last that has both nfs and glusterfs in the tree.
pub(crate) const VERSION: &str = "1.20.2";
const SUITE: &str = "bookworm";
const COMPILER: [&str; 2] = ["golang-1.19-go", "golang-1.19-src"];
const TOOLS: [&str; 6] = ["busybox-static", "containerd", "containernetworking-plugins", "etcd-server", "kubernetes-client", "runc"];
const BUILT: [&str; 4] = ["kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Where the programs lie.
pub(crate) struct Programs {
    pub(crate) root: PathBuf,
}

impl Programs {
    /// A program by the name that everyone calls it.
    pub(crate) fn path(&self, name: &str) -> Result<PathBuf> {
        let places = ["k8s", "usr/bin", "usr/sbin", "bin"].map(|directory| self.root.join(directory).join(name));
        places.into_iter().find(|place| place.is_file()).with_context(|| format!("no {name} in {}", self.root.display()))
    }

    pub(crate) fn network_plugins(&self) -> PathBuf {
        self.root.join("usr/lib/cni")
    }
}

/// `place` has a lock of its own: the compiler runs for long, and other chores need not wait for it.
pub(crate) fn build_once(place: &Path) -> Result<Programs> {
    fs::create_dir_all(place).with_context(|| format!("cannot create {}", place.display()))?;
    let _lock = cache::lock(place)?;
    apt::ensure_installed(&["dpkg-dev", "gcc", "libc6-dev", "make", "rsync"])?;
    let root = place.join("programs");
    let recipe = format!("1 {SUITE} {VERSION} {} {}\n", COMPILER.join(" "), TOOLS.join(" "));
    cache::build_once(&root, &recipe, build)?;
    Ok(Programs { root })
}

fn build(root: &Path) -> Result<()> {
    let work = tempfile::Builder::new().prefix("build-").tempdir_in(root.parent().context("no directory to build in")?)?;
    let apt = PrivateApt::new(&work.path().join("apt"), &[SUITE])?;
    TOOLS.iter().try_for_each(|package| apt.unpack(package, SUITE, root))?;
    let go = work.path().join("go");
    COMPILER.iter().try_for_each(|package| apt.unpack(package, SUITE, &go))?;
    let source = work.path().join("kubernetes");
    apt.unpack_source("kubernetes", SUITE, &source)?;
    eprintln!("compiling Kubernetes {VERSION}: about ten minutes, once");
    compile(&source, &go.join("usr/lib/go-1.19"), work.path())?;
    let place = root.join("k8s");
    fs::create_dir(&place)?;
    for program in BUILT {
        fs::copy(source.join("_output/bin").join(program), place.join(program)).with_context(|| format!("make did not build {program}"))?;
    }
    let pause = root.join("bin/pause");
    process::run(Command::new("gcc").args(["-Os", "-static", "-s", "-o"]).arg(pause).arg(source.join("build/pause/linux/pause.c")))?;
    make_writable(work.path())
}

/// Kubernetes of that age is built where GOPATH points, from what it vendors, without a network.
fn compile(source: &Path, go: &Path, work: &Path) -> Result<()> {
    let gopath = source.join(".gopath");
    let place = gopath.join("src/k8s.io");
    fs::create_dir_all(&place)?;
    std::os::unix::fs::symlink(source, place.join("kubernetes"))?;
    let version = work.join("version");
    let (major_minor, _) = VERSION.rsplit_once('.').context("a version has three parts")?;
    let (major, minor) = major_minor.split_once('.').context("a version has three parts")?;
    let facts = [("COMMIT", "debian"), ("TREE_STATE", "archive"), ("VERSION", &format!("v{VERSION}")), ("MAJOR", major), ("MINOR", minor)];
    fs::write(&version, facts.map(|(name, value)| format!("KUBE_GIT_{name}='{value}'\n")).concat())?;
    let scratch = work.join("scratch");
    fs::create_dir(&scratch)?;
    let path = std::env::var("PATH").context("PATH is not set")?;
    let targets = BUILT.map(|program| format!("cmd/{program}")).join(" ");
    process::run(
        Command::new("make")
            .arg(format!("WHAT={targets}"))
            .current_dir(source)
            // cargo gives us an OUT_DIR, which means something else to this Makefile.
            .env_clear()
            .env("PATH", format!("{}:{path}", go.join("bin").display()))
            .env("HOME", work)
            // It runs for long: a clean-up of /tmp meanwhile does not end it.
            .env("TMPDIR", &scratch)
            .env("GOROOT", go)
            .env("GOPATH", &gopath)
            .env("GOCACHE", work.join("gocache"))
            .env("GOPROXY", "off")
            .env("CGO_ENABLED", "0")
            // The clouds' own code is a third of the whole; the network volumes stay.
            .env("GOFLAGS", "-tags=providerless")
            // kubelet would be linked with C, and everything compiled a second time for that.
            .env("KUBE_STATIC_OVERRIDES", "kubelet")
            .env("KUBE_GIT_VERSION_FILE", &version),
    )?;
    ensure!(source.join("_output/bin/kubelet").is_file(), "make ended well but built no kubelet");
    Ok(())
}

/// Go writes parts of its caches read-only; what cannot be written cannot be removed by anyone but root.
fn make_writable(directory: &Path) -> Result<()> {
    process::run(Command::new("chmod").args(["--recursive", "u+w"]).arg(directory))
}
