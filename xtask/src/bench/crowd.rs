//! Mounts that are just there, as on a host with many containers.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount};
use shorefast_tests::client::store;
use shorefast_tests::{Host, mountinfo};

/// Where they are. It matters to the kernel more than how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// On a mount that has nothing to do with ours.
    Elsewhere,
    /// On the mount that the images are on. To copy that, the kernel looks at each of them.
    BesideImages,
    /// The same, but the images have been given a mount of their own.
    BesideImagesApart,
    /// Copies of the mount that the target is on. Whatever is mounted there, each of them might have to show.
    PeersOfTarget,
}

impl Where {
    pub(super) const ALL: [Self; 4] = [Self::Elsewhere, Self::BesideImagesApart, Self::BesideImages, Self::PeersOfTarget];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Elsewhere => "elsewhere",
            Self::BesideImages => "beside the images",
            Self::BesideImagesApart => "beside the images, which are on a mount of their own",
            Self::PeersOfTarget => "peers of the target's",
        }
    }
}

/// Dropped: gone.
#[derive(Debug)]
pub(super) struct Crowd {
    /// In the order of mounting.
    mounts: Vec<PathBuf>,
    directories: Vec<PathBuf>,
}

impl Crowd {
    /// So many that the host has `total` of them.
    pub(super) fn gather(total: usize, place: Where, host: &Host) -> Result<Self> {
        let mut crowd = Self { mounts: Vec::new(), directories: Vec::new() };
        let below = match place {
            Where::Elsewhere | Where::PeersOfTarget => PathBuf::from("/run/crowd"),
            Where::BesideImages | Where::BesideImagesApart => store().with_file_name("crowd"),
        };
        crowd.directory(&below)?;
        match place {
            Where::Elsewhere | Where::PeersOfTarget => crowd.tmpfs(&below)?,
            Where::BesideImages => {}
            Where::BesideImagesApart => crowd.bind(&store(), &store())?,
        }
        let original = host.directory("original");
        let there = mountinfo::here().len();
        ensure!(there <= total, "{there} mounts are there, which is more than {total}");
        for number in there..total {
            let point = below.join(number.to_string());
            crowd.directory(&point)?;
            match place {
                Where::PeersOfTarget => crowd.bind(&original, &point)?,
                Where::Elsewhere | Where::BesideImages | Where::BesideImagesApart => crowd.tmpfs(&point)?,
            }
        }
        Ok(crowd)
    }

    fn directory(&mut self, path: &Path) -> Result<()> {
        fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
        self.directories.push(path.to_owned());
        Ok(())
    }

    /// A filesystem of its own, as a container's secrets are. Private: mounts on it do not propagate.
    fn tmpfs(&mut self, path: &Path) -> Result<()> {
        mount("tmpfs", path, "tmpfs", MountFlags::empty(), None).with_context(|| format!("cannot mount on {}", path.display()))?;
        self.mounts.push(path.to_owned());
        mount_change(path, MountPropagationFlags::PRIVATE).with_context(|| format!("cannot make {} private", path.display()))
    }

    fn bind(&mut self, from: &Path, to: &Path) -> Result<()> {
        mount_bind(from, to).with_context(|| format!("cannot bind {}", from.display()))?;
        self.mounts.push(to.to_owned());
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // Nothing else can be done about a failure: the next crowd would be too large, and tell.
        for place in self.mounts.iter().rev() {
            let _ = unmount(place, UnmountFlags::DETACH);
        }
        for directory in self.directories.iter().rev() {
            let _ = fs::remove_dir(directory);
        }
    }
}
