//! A small Debian archive on this machine: real packages of every client, indexes made by Debian's own tool, a throw-away key. Tests
//! have no network, and a benchmark wants none.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::private_apt::PrivateApt;
use crate::{cache, process};

/// The release of the machine that the tests run on.
pub(crate) const SUITE: &str = "bookworm";
/// The release that the catalogue names.
const CURRENT_SUITE: &str = "trixie";

/// A directory of the cache with dists, pool and key.gpg.
pub(crate) struct Archive {
    pub(crate) name: &'static str,
    pub(crate) suite: &'static str,
    /// Their dependencies come, too.
    pub(crate) packages: &'static [&'static str],
    /// Another kind of machine, whose packages are here, too; nothing of them is run.
    pub(crate) also: Option<&'static str>,
}

/// Everything that the tests build images of.
pub(crate) const CLIENTS: Archive = Archive { name: "debian", suite: SUITE, packages: PACKAGES, also: None };
/// Where the catalogue's images come from in tests.
pub(crate) const CURRENT_CLIENTS: Archive = Archive { name: "debian-trixie", suite: CURRENT_SUITE, packages: PACKAGES, also: None };

/// For images that are built for several kinds of machines.
pub(crate) const TWO_ARCHITECTURES: Archive = Archive {
    name: "debian-two",
    suite: CURRENT_SUITE,
    packages: &["bindfs", "coreutils", "dash", "grep", "mawk", "mount", "sed"],
    also: Some(OTHER_ARCHITECTURE),
};

/// One that this machine is not.
const OTHER_ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "amd64" } else { "arm64" };

/// What else the catalogue names, and what its tests make filesystems and serve files with.
pub(crate) const CATALOGUE: Archive = Archive {
    name: "debian-catalogue",
    suite: CURRENT_SUITE,
    packages: &[
        "archivemount",
        "avfs",
        "borgbackup",
        "ca-certificates",
        "coreutils",
        "cryfs",
        "curlftpfs",
        "dash",
        "disorderfs",
        "dosfstools",
        "encfs",
        "erofs-utils",
        "erofsfuse",
        "fuse-convmvfs",
        "fuse-overlayfs",
        "fuse-posixovl",
        "fuse-zip",
        "fuse2fs",
        "fuse3",
        "fusefat",
        "fuseiso",
        "genisoimage",
        "gocryptfs",
        "grep",
        "httpdirfs",
        "libnbd-bin",
        "mawk",
        "mergerfs",
        "moosefs-chunkserver",
        "moosefs-client",
        "moosefs-master",
        "mount",
        "nbdkit",
        "ntfs-3g",
        "python3-pyfuse3",
        "python3-pyftpdlib",
        "restic",
        "s3backer",
        "securefs",
        "sed",
        "smbnetfs",
        "squashfs-tools",
        "squashfuse",
    ],
    also: None,
};

const PACKAGES: &[&str] = &[
    "bindfs",
    "ca-certificates",
    "ceph-fuse",
    "cifs-utils",
    "coreutils",
    "dash",
    "davfs2",
    "fuse3",
    "glusterfs-client",
    "grep",
    "mawk",
    "mount",
    "nfs-common",
    "openssh-server",
    "rclone",
    "s3fs",
    "sed",
    "sshfs",
];

impl Archive {
    pub(crate) fn build(&self, cache: &Path) -> Result<()> {
        let recipe = format!("2 {} {}\n", self.suite, self.packages.join(" "));
        cache::build_once(&cache.join(self.name), &recipe, |archive| {
            let pool = archive.join("pool");
            fs::create_dir_all(pool.join("partial"))?;
            match self.suite {
                SUITE => download(self.packages, &pool)?,
                suite => download_of(suite, None, self.packages, archive, &pool)?,
            }
            if let Some(other) = self.also {
                download_of(self.suite, Some(other), self.packages, archive, &pool)?;
            }
            fs::remove_dir(pool.join("partial"))?;
            let own = process::output(Command::new("dpkg").arg("--print-architecture"))?;
            let architectures: Vec<&str> = [own.trim()].into_iter().chain(self.also).collect();
            index(archive, self.suite, &architectures)?;
            sign(archive, self.suite)
        })
    }
}

/// As apt would on a machine that has nothing.
fn download(packages: &[&str], pool: &Path) -> Result<()> {
    let nothing = pool.join("partial/status");
    fs::write(&nothing, "")?;
    process::run(Command::new("apt-get").args(["--quiet=2", "update"]))?;
    let options = [
        format!("Dir::State::status={}", nothing.display()),
        format!("Dir::Cache::archives={}", pool.display()),
        "Debug::NoLocking=1".to_owned(),
        "APT::Sandbox::User=root".to_owned(),
    ];
    let mut command = Command::new("apt-get");
    command.args(["--quiet=2", "--yes", "--download-only", "--no-install-recommends"]);
    for option in &options {
        command.args(["--option", option]);
    }
    process::run(command.arg("install").args(packages))?;
    fs::remove_file(nothing).context("cannot tidy up")
}

/// The same of another release or architecture.
fn download_of(suite: &str, architecture: Option<&str>, packages: &[&str], archive: &Path, pool: &Path) -> Result<()> {
    let apt = PrivateApt::of(architecture, &archive.join("apt"), &[suite])?;
    apt.download(packages, pool)?;
    apt.discard()
}

fn index(archive: &Path, suite: &str, architectures: &[&str]) -> Result<()> {
    let dists = archive.join("dists").join(suite);
    for architecture in architectures {
        let index = dists.join(format!("main/binary-{architecture}"));
        fs::create_dir_all(&index)?;
        let packages =
            process::output(Command::new("apt-ftparchive").args(["--arch", architecture, "packages", "pool"]).current_dir(archive))?;
        fs::write(index.join("Packages"), packages)?;
        process::run(Command::new("xz").args(["--keep"]).arg(index.join("Packages")))?;
    }
    let architectures = architectures.join(" ");
    let mut command = Command::new("apt-ftparchive");
    let fields = [("Origin", "Debian"), ("Suite", suite), ("Codename", suite), ("Components", "main"), ("Architectures", &architectures)];
    for (field, value) in fields {
        command.arg("-o").arg(format!("APT::FTPArchive::Release::{field}={value}"));
    }
    let release = process::output(command.arg("release").arg(&dists))?;
    fs::write(dists.join("Release"), release).context("cannot write Release")
}

fn sign(archive: &Path, suite: &str) -> Result<()> {
    let home = archive.join("gnupg");
    fs::create_dir(&home)?;
    fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    let gpg = || {
        let mut gpg = Command::new("gpg");
        gpg.env("GNUPGHOME", &home).args(["--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]);
        gpg
    };
    process::run(gpg().args(["--quick-gen-key", "shorefast tests", "ed25519", "sign", "never"]))?;
    process::run(gpg().arg("--output").arg(archive.join("key.gpg")).arg("--export"))?;
    let dists = archive.join("dists").join(suite);
    process::run(gpg().arg("--output").arg(dists.join("InRelease")).arg("--clearsign").arg(dists.join("Release")))?;
    process::run(Command::new("gpgconf").env("GNUPGHOME", &home).args(["--kill", "all"]))?;
    fs::remove_dir_all(home).context("cannot remove the key")
}
