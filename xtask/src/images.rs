//! Client images for the tests: root filesystems with one unmodified client of Debian 12 each, as directories and as archives.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::parallel::in_parallel;
use crate::{apt, cache, process};

const SUITE: &str = "bookworm";

/// What helpers that are shell scripts, and mount(8) itself, need.
const BASE: &str = "dash,coreutils,sed,grep,mawk,mount";

/// As in every image that Debian itself makes; "extract" alone leaves /bin and /sbin apart.
const MERGED_USR: &str = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr";

pub(crate) struct Image {
    name: &'static str,
    packages: &'static str,
}

static IMAGES: [Image; 9] = [
    Image { name: "tmpfs", packages: "" },
    Image { name: "bindfs", packages: ",bindfs,fuse3" },
    Image { name: "sshfs", packages: ",sshfs,fuse3" },
    Image { name: "s3fs", packages: ",s3fs,ca-certificates" },
    Image { name: "glusterfs", packages: ",glusterfs-client" },
    Image { name: "rclone", packages: ",rclone,fuse3,ca-certificates" },
    Image { name: "davfs2", packages: ",davfs2,ca-certificates" },
    Image { name: "archivemount", packages: ",archivemount,fuse3" },
    Image { name: "cifs", packages: ",cifs-utils" },
];

/// Which images also exist as an archive, and how tar is told to write it.
const ARCHIVES: [(&str, &str, &str); 2] = [("bindfs", "bindfs.tar", "--no-auto-compress"), ("sshfs", "sshfs.tar.zst", "--zstd")];

pub(crate) fn build_all(cache: &Path) -> Result<()> {
    let images = cache.join("images");
    in_parallel(&IMAGES, |image| build(image, &images)).into_iter().collect::<Result<()>>()?;
    in_parallel(&ARCHIVES, |archive| pack(archive, &images)).into_iter().collect()
}

fn build(image: &Image, images: &Path) -> Result<()> {
    let include = format!("{BASE}{}", image.packages);
    let recipe = format!("3 {SUITE} {include}\n");
    cache::build_once(&images.join(image.name), &recipe, |root| {
        // "extract" runs no maintainer script: nothing of the packages' code runs on this machine.
        process::run(
            Command::new("mmdebstrap")
                .args(["--quiet", "--variant=extract", MERGED_USR])
                .arg(format!("--include={include}"))
                .arg(SUITE)
                .arg(root)
                .arg(apt::mirror(SUITE)?),
        )?;
        // Every image that was ever set up has this cache; without it each start of a program searches all directories.
        process::run(Command::new("/sbin/ldconfig").arg("-r").arg(root))
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
