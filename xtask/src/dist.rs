//! `cargo xtask dist`: everything that a release consists of, from a checkout: static binaries, .deb and .rpm, an OCI image of Shorefast
//! itself, what a cluster is given, a list of what is in it, checksums. The same checkout gives the same bytes.

mod binary;
mod package;
mod sbom;
mod trial;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use shorefast_image::export::Destination;
use shorefast_image::manifest::Platform;
use shorefast_image::outgoing::{About, Build};

use crate::{apt, docker_plugin, process};

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A directory that does not exist yet
    #[arg(long, default_value = "target/dist")]
    out: PathBuf,
    #[arg(long, value_delimiter = ',', default_value = "x86_64")]
    architectures: Vec<String>,
    /// Without optimisation, which takes minutes: to try the packaging
    #[arg(long)]
    quick: bool,
    /// Make it twice, the second time from nothing, and compare
    #[arg(long)]
    twice: bool,
    /// Install, use, upgrade and purge the .deb in a clean Debian
    #[arg(long)]
    try_package: bool,
}

/// One architecture, under all its names.
#[derive(Clone, Copy)]
pub(crate) struct Architecture {
    pub(crate) rust: &'static str,
    /// Of Debian, Go and the OCI.
    pub(crate) debian: &'static str,
    /// The compiler for C, and the linker.
    pub(crate) compiler: &'static str,
    /// The package that has it.
    compiler_package: &'static str,
    /// In the header of its programs, as readelf shows it.
    machine: &'static str,
}

const ARCHITECTURES: [Architecture; 2] = [
    Architecture { rust: "x86_64", debian: "amd64", compiler: "musl-gcc", compiler_package: "musl-tools", machine: "X86-64" },
    Architecture {
        rust: "aarch64",
        debian: "arm64",
        compiler: "aarch64-linux-gnu-gcc",
        compiler_package: "gcc-aarch64-linux-gnu",
        machine: "AArch64",
    },
];

pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "the files of a release belong to root: run this as root");
    let find = |name: &String| ARCHITECTURES.into_iter().find(|one| one.rust == *name).with_context(|| format!("no architecture {name}"));
    let architectures = args.architectures.iter().map(find).collect::<Result<Vec<_>>>()?;
    apt::ensure_installed(&["binutils", "mmdebstrap", "rpm", "xz-utils"])?;
    for architecture in &architectures {
        apt::ensure_installed(&[architecture.compiler_package])?;
    }
    make(args, &architectures, &args.out, Path::new("target/static"))?;
    if args.twice {
        let again = tempfile::tempdir_in("target").context("cannot make a directory")?;
        let out = again.path().join("dist");
        make(args, &architectures, &out, &again.path().join("static"))?;
        let (one, other) = (fs::read(args.out.join("SHA256SUMS"))?, fs::read(out.join("SHA256SUMS"))?);
        ensure!(one == other, "the second time is different:\n{}---\n{}", String::from_utf8_lossy(&one), String::from_utf8_lossy(&other));
        println!("twice the same");
    }
    if args.try_package {
        trial::run(&args.out)?;
    }
    Ok(())
}

fn make(args: &Args, architectures: &[Architecture], out: &Path, target: &Path) -> Result<()> {
    let time = commit_time()?;
    fs::create_dir(out).with_context(|| format!("{} is there already, or cannot be made", out.display()))?;
    for architecture in architectures {
        let built = binary::build(*architecture, args.quick, target)?;
        let release = out.join(format!("shorefast-{VERSION}-linux-{}", architecture.debian));
        fs::copy(&built, &release).context("cannot copy the binary")?;
        let work = tempfile::tempdir().context("cannot make a directory")?;
        let tree = work.path().join("tree");
        package::tree(&release, &tree, time)?;
        package::deb(*architecture, &tree, out, time)?;
        package::rpm(*architecture, &tree, out, time)?;
        image(*architecture, &release, out, time)?;
        plugin(*architecture, &release, out, time)?;
        sbom::write(*architecture, &out.join(format!("shorefast-{VERSION}-linux-{}.cdx.json", architecture.debian)))?;
    }
    deployment(out, time)?;
    let mut names = fs::read_dir(out)?.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    names.sort();
    let sums = process::output(Command::new("sha256sum").args(&names).current_dir(out))?;
    fs::write(out.join("SHA256SUMS"), &sums).context("cannot write checksums")?;
    print!("{sums}");
    Ok(())
}

/// Of the last commit: what is made from it has no other time.
fn commit_time() -> Result<u64> {
    let time = process::output(Command::new("git").args(["log", "-1", "--format=%ct"]))?;
    time.trim().parse().context("git does not say when the last commit was")
}

/// One static program on nothing.
fn image(architecture: Architecture, binary: &Path, out: &Path, time: u64) -> Result<()> {
    let root = tempfile::tempdir().context("cannot make a directory")?;
    let inside = root.path().join("shorefast");
    fs::copy(binary, &inside).context("cannot copy the binary")?;
    set(&inside, 0o755, time)?;
    let name = format!("shorefast-{VERSION}-{}.oci.tar", architecture.debian);
    let reference = format!("oci-archive:{}:{VERSION}", out.join(&name).display()).parse()?;
    let platform = Platform { os: "linux".to_owned(), architecture: architecture.debian.to_owned(), variant: None };
    let about = About { platform, entrypoint: vec!["/shorefast".to_owned()] };
    Destination::check(&reference)?.write(&[Build { rootfs: root.path().to_owned(), about }])?;
    Ok(())
}

/// What a cluster or a host is given: manifests of the mounter and of CSI, charts, units.
fn deployment(out: &Path, time: u64) -> Result<()> {
    archive(Path::new("."), "deploy", &out.join(format!("shorefast-{VERSION}-deploy.tar.gz")), time)
}

/// The directory of which `docker plugin create` makes a plugin.
fn plugin(architecture: Architecture, binary: &Path, out: &Path, time: u64) -> Result<()> {
    let work = tempfile::tempdir().context("cannot make a directory")?;
    let name = "shorefast-docker-plugin";
    docker_plugin::make(binary, &work.path().join(name))?;
    archive(work.path(), name, &out.join(format!("shorefast-{VERSION}-docker-plugin-{}.tar.gz", architecture.debian)), time)
}

/// One directory, without a trace of when and by whom.
fn archive(inside: &Path, directory: &str, to: &Path, time: u64) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX", "-I", "gzip -n9"]);
    tar.arg(format!("--mtime=@{time}")).arg("-cf").arg(std::path::absolute(to)?);
    process::run(tar.arg("-C").arg(inside).arg(directory))
}

fn set(path: &Path, mode: u32, time: u64) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode)).context("cannot set permissions")?;
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(time);
    File::options().write(true).open(path).and_then(|file| file.set_modified(time)).context("cannot set the time")
}
