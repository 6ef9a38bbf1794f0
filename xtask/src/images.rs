//! Client images for the tests: root filesystems with one unmodified client of Debian 12 each, as directories and as archives.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, anyhow};

use crate::{apt, cache, process};

const SUITE: &str = "bookworm";

/// What helpers that are shell scripts, and mount(8) itself, need.
const BASE: &str = "dash,coreutils,sed,grep,mawk,mount";

struct Image {
    name: &'static str,
    packages: &'static str,
}

const IMAGES: [Image; 7] = [
    Image { name: "tmpfs", packages: "" },
    Image { name: "bindfs", packages: ",bindfs,fuse3" },
    Image { name: "sshfs", packages: ",sshfs,fuse3" },
    Image { name: "s3fs", packages: ",s3fs,ca-certificates" },
    Image { name: "glusterfs", packages: ",glusterfs-client" },
    Image { name: "rclone", packages: ",rclone,fuse3,ca-certificates" },
    Image { name: "davfs2", packages: ",davfs2,ca-certificates" },
];

/// Which images also exist as an archive, and how tar is told to write it.
const ARCHIVES: [(&str, &str, &str); 2] = [("bindfs", "bindfs.tar", "--no-auto-compress"), ("sshfs", "sshfs.tar.zst", "--zstd")];

/// mmdebstrap is one process for most of its time: as many as the machine has cores, if it is a small one.
const AT_ONCE: usize = 2;

pub(crate) fn build_all(cache: &Path) -> Result<()> {
    let images = cache.join("images");
    in_parallel(&IMAGES, |image| build(image, &images))?;
    in_parallel(&ARCHIVES, |archive| pack(archive, &images))
}

fn build(image: &Image, images: &Path) -> Result<()> {
    let include = format!("{BASE}{}", image.packages);
    let recipe = format!("1 {SUITE} {include}\n");
    cache::build_once(&images.join(image.name), &recipe, |root| {
        // "extract" runs no maintainer script: nothing of the packages' code runs on this machine.
        process::run(
            Command::new("mmdebstrap")
                .args(["--quiet", "--variant=extract"])
                .arg(format!("--include={include}"))
                .arg(SUITE)
                .arg(root)
                .arg(apt::mirror(SUITE)?),
        )
    })
}

fn pack((image, file, compression): &(&str, &str, &str), images: &Path) -> Result<()> {
    let recipe = std::fs::read_to_string(images.join(format!("{image}.recipe")))?;
    cache::build_once(&images.join(file), &recipe, |archive| {
        process::run(
            Command::new("tar")
                .args([compression, "--numeric-owner", "--create", "--file"])
                .arg(archive)
                .arg("--directory")
                .arg(images.join(image))
                .arg("."),
        )
    })
}

fn in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    let worker = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(item)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a worker panicked"))?)
    })
}
