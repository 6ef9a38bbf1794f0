//! `cargo xtask setup`: a fresh Debian 12 machine with Rust becomes one that can run the tests.

use anyhow::{Result, ensure};

use crate::{apt, archive, cache, deploy_tools, images, process, s3_server};

/// Servers to mount from, the clients themselves (the oracle: what works natively must work sandboxed), and tools.
const PACKAGES: [&str; 40] = [
    "apache2-utils",
    "apt-utils",
    "archivemount",
    "attr",
    "bindfs",
    "buildah",
    "ca-certificates",
    "cifs-utils",
    "containerd",
    "davfs2",
    "docker-compose",
    "docker-registry",
    "docker.io",
    "e2fsprogs",
    "fuse3",
    "glusterfs-server",
    "gnupg",
    "iproute2",
    "krb5-admin-server",
    "krb5-kdc",
    "mmdebstrap",
    "musl-tools",
    "nfs-common",
    "nfs-kernel-server",
    "openssh-server",
    "openssl",
    "podman",
    "python3",
    "python3-pip",
    "rclone",
    "rpcbind",
    "runc",
    "s3fs",
    "samba",
    "skopeo",
    "sshfs",
    "systemd",
    "umoci",
    "util-linux",
    "zstd",
];

pub(crate) fn run() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "the tests mount and install packages: run this as root");
    let cache = cache::directory()?;
    let _lock = cache::lock(&cache)?;
    apt::ensure_installed(&PACKAGES)?;
    images::build_all(&cache)?;
    archive::CLIENTS.build(&cache)?;
    archive::CURRENT_CLIENTS.build(&cache)?;
    archive::CATALOGUE.build(&cache)?;
    archive::TWO_ARCHITECTURES.build(&cache)?;
    s3_server::install(&cache)?;
    deploy_tools::install(&cache)?;
    ensure_nextest()
}

/// A machine without cargo-nextest gets it once; it is built from source, which takes minutes.
fn ensure_nextest() -> Result<()> {
    if process::exists("cargo-nextest") {
        return Ok(());
    }
    eprintln!("building cargo-nextest");
    process::run(process::cargo().args(["install", "--quiet", "--locked", "cargo-nextest"]))
}
