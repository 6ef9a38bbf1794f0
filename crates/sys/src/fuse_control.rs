//! The kernel's own directory of FUSE connections (fusectl), in a mount of our own, because not every host has one at /sys/fs/fuse. Out: which
//! connections have waiting requests. Reading it contacts no server.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Dir, Mode, OFlags};
use rustix::mount::MountAttrFlags;

use crate::error::{Result, call};
use crate::mount;

#[derive(Debug)]
pub struct Connections(OwnedFd);

impl Connections {
    /// Fails if FUSE has not been used yet.
    pub fn open() -> Result<Self> {
        mount::new_filesystem("fusectl", &[], MountAttrFlags::empty()).map(Self)
    }

    /// The minor device numbers of connections with requests that are not answered yet.
    pub fn waiting(&self) -> Result<Vec<u32>> {
        let root = rustix::fs::openat(&self.0, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let entries = call(|| "readdir(fusectl)".into(), root.and_then(Dir::new))?;
        let minors = entries.flatten().filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok());
        Ok(minors.filter(|minor| self.waits(*minor)).collect())
    }

    /// A connection that is gone has none.
    pub fn waits(&self, minor: u32) -> bool {
        let mut count = [0; 16];
        let file = rustix::fs::openat(&self.0, Path::new(&format!("{minor}/waiting")), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let length = file.and_then(|file| rustix::io::read(&file, &mut count)).unwrap_or(0);
        std::str::from_utf8(&count[..length]).is_ok_and(|text| text.trim().parse::<u64>().is_ok_and(|count| count > 0))
    }
}
