//! The client's /etc: a directory of ours, in which the image's entries are links and some files are ours.
//!
//! An overlay would show the same, and cost a quarter of a whole mount. The image's own directory is as far below the root as
//! /etc is, so that relative links in it lead where they should.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use shorefast_sys::Result;

use crate::node;
use crate::orders::{EntryKind, ReadFile};

pub const ETC: &str = "etc";
/// The image's directory of that name.
pub const OF_IMAGE: &str = "shorefast-etc";

/// Some clients insist on it; a distribution makes it when a system is set up, which an image
/// made straight from packages never was.
const MTAB: &str = "mtab";

/// Fills the empty directory with what the image has.
pub fn link() -> Result<()> {
    link_entries(Path::new(""))
}

/// Adds ours. Of two with one name, a file of ours counts.
pub fn lay(files: &[&ReadFile], owner: u32) -> Result<()> {
    let mut ours = vec![Path::new("")];
    for file in files {
        let place = within(file);
        let parents = place.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
        for parent in parents.collect::<Vec<_>>().into_iter().rev() {
            if !ours.contains(&parent) {
                take_over(parent)?;
                ours.push(parent);
            }
        }
        let path = Path::new(ETC).join(place);
        clear(&path);
        node::write_out(file, &path, owner)?;
    }
    let mtab = Path::new(ETC).join(MTAB);
    if rustix::fs::lstat(&mtab).is_ok() { Ok(()) } else { node::make_link(&mtab, Path::new("/proc/self/mounts")) }
}

fn within(file: &ReadFile) -> &Path {
    let place = node::relative(node::path(&file.inside));
    place.strip_prefix(ETC).expect("the plan puts files only below /etc or our own directories")
}

/// Turns a directory of the image, or nothing, into one of ours with the same entries.
fn take_over(directory: &Path) -> Result<()> {
    let path = Path::new(ETC).join(directory);
    clear(&path);
    node::make_directory(&path)?;
    link_entries(directory)
}

fn link_entries(directory: &Path) -> Result<()> {
    let Some(image) = open_of_image(directory) else { return Ok(()) };
    for entry in node::entries(&image)? {
        let name = directory.join(node::path(&entry.name));
        let path = Path::new(ETC).join(&name);
        match &entry.kind {
            EntryKind::Link(target) => node::make_link(&path, node::path(target))?,
            EntryKind::Directory | EntryKind::File => node::make_link(&path, &Path::new("/").join(OF_IMAGE).join(&name))?,
        }
    }
    Ok(())
}

/// None: the image has no such directory.
fn open_of_image(directory: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, Path::new(OF_IMAGE).join(directory), flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS).ok()
}

/// A link to what the image has, if there is one.
fn clear(path: &Path) {
    let _ = rustix::fs::unlink(path);
}
