//! The client's /etc: a directory that the sandbox provides, with links to the image's entries and with files of its
//! own. In: the image's root and the files. Out: a filled /etc. [`prepare`] runs once per image, when the
//! image is stored.
//!
//! An overlay would show the same, but costs a quarter of a whole mount. The image's own /etc is mounted one level
//! below the root, as /etc is, so that its relative links still resolve.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use shorefast_sys as sys;
use sys::{Result, call};

use crate::launcher::base_dirs::ETC;
use crate::launcher::files::{self, ReadFile};
use crate::launcher::node::{self, Entry, EntryKind};

/// Where the image's own /etc is mounted, at the top level.
pub const OF_IMAGE: &str = "shorefast-etc";

/// Some clients insist on it. Distributions create it when a system is installed, which never happens to an image made
/// directly from packages.
const MTAB: &str = "mtab";

/// The files that most clients get from us, and where they are when a prepared directory is used.
const USUAL: [&str; 4] = ["group", "hosts", "passwd", "resolv.conf"];
const OURS: &str = "shorefast/etc";

/// Makes a directory that all mounts of an image share and mount at /etc: it links to the image's entries, and to the
/// place where the usual files of each client will be.
pub fn prepare(image: &Path, into: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let image = rustix::fs::open(image, flags, Mode::empty())?;
    let is_usual = |place: &Path| USUAL.iter().any(|usual| place == Path::new(usual));
    for (place, target) in links(&image, Path::new("")).map_err(io::Error::other)? {
        if !is_usual(&place) {
            rustix::fs::symlink(&target, into.join(place))?;
        }
    }
    for name in USUAL {
        rustix::fs::symlink(Path::new("/").join(OURS).join(name), into.join(name))?;
    }
    link_mtab(into).map_err(io::Error::other)
}

/// Fills the empty /etc with the image's entries and our files; ours win on equal names. `prepared`: a detached mount
/// of what [`prepare`] made for this image.
pub fn lay(image: &OwnedFd, prepared: Option<&OwnedFd>, files: &[&ReadFile], owner: u32) -> Result<()> {
    match prepared {
        Some(prepared) if files.iter().all(|file| USUAL.iter().any(|usual| within(file) == Path::new(usual))) => {
            lay_prepared(prepared, files, owner)
        }
        _ => lay_anew(image, files, owner),
    }
}

fn lay_prepared(prepared: &OwnedFd, files: &[&ReadFile], owner: u32) -> Result<()> {
    sys::mount::attach(prepared.as_fd(), CWD, Path::new(ETC))?;
    node::make_directory(OURS)?;
    for name in USUAL {
        let place = Path::new(OURS).join(name);
        match files.iter().find(|file| within(file) == Path::new(name)) {
            Some(file) => files::write_out(file, &place, owner)?,
            None => node::make_link(&place, &of_image(Path::new(name)))?,
        }
    }
    Ok(())
}

fn lay_anew(image: &OwnedFd, files: &[&ReadFile], owner: u32) -> Result<()> {
    let places: Vec<_> = files.iter().map(|file| within(file)).collect();
    // Sorted: a directory comes before its contents.
    let directories: BTreeSet<_> = places.iter().flat_map(|place| place.ancestors().skip(1)).chain([Path::new("")]).collect();
    let is_ours = |place: &Path| directories.contains(place) || places.contains(&place);
    for directory in &directories {
        if !directory.as_os_str().is_empty() {
            node::make_directory(Path::new(ETC).join(directory))?;
        }
        for (place, target) in links(image, directory)?.iter().filter(|(place, _)| !is_ours(place)) {
            node::make_link(&Path::new(ETC).join(place), target)?;
        }
    }
    for (file, place) in files.iter().zip(&places) {
        files::write_out(file, &Path::new(ETC).join(place), owner)?;
    }
    link_mtab(Path::new(ETC))
}

fn link_mtab(directory: &Path) -> Result<()> {
    match rustix::fs::symlink("/proc/self/mounts", directory.join(MTAB)) {
        Err(Errno::EXIST) => Ok(()),
        linked => call(|| format!("symlink({MTAB:?})"), linked),
    }
}

fn within(file: &ReadFile) -> &Path {
    let place = node::relative(node::path(&file.inside));
    place.strip_prefix(ETC).expect("the plan puts files only below /etc or our own directories")
}

/// The entries of a directory in the image's /etc: the path of each below /etc, and the target of the link that
/// represents it.
fn links(image: &OwnedFd, directory: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let Some(opened) = open_of_image(image, directory) else { return Ok(Vec::new()) };
    let link = |entry: Entry| {
        let place = directory.join(node::path(&entry.name));
        let target = match &entry.kind {
            EntryKind::Link(target) => node::path(target).to_owned(),
            EntryKind::Directory | EntryKind::File => of_image(&place),
        };
        (place, target)
    };
    Ok(node::entries(&opened)?.into_iter().map(link).collect())
}

fn of_image(place: &Path) -> PathBuf {
    Path::new("/").join(OF_IMAGE).join(place)
}

/// `None`: the image has no such directory.
fn open_of_image(image: &OwnedFd, directory: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(image, Path::new(ETC).join(directory), flags, Mode::empty(), resolve).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_prepared_leads_to_the_image_and_to_ours() {
        let directory = tempfile::tempdir().unwrap();
        let (image, into) = (directory.path().join("image"), directory.path().join("prepared"));
        fs::create_dir_all(image.join("etc/ssl")).unwrap();
        fs::create_dir(&into).unwrap();
        fs::write(image.join("etc/passwd"), "root:x:0:0::/:\n").unwrap();
        fs::write(image.join("etc/fuse.conf"), "").unwrap();
        symlink("../usr/share/zoneinfo/UTC", image.join("etc/localtime")).unwrap();
        prepare(&image, &into).unwrap();
        let rows = [
            ("fuse.conf", "/shorefast-etc/fuse.conf"),
            ("group", "/shorefast/etc/group"),
            ("hosts", "/shorefast/etc/hosts"),
            ("localtime", "../usr/share/zoneinfo/UTC"),
            ("mtab", "/proc/self/mounts"),
            ("passwd", "/shorefast/etc/passwd"),
            ("resolv.conf", "/shorefast/etc/resolv.conf"),
            ("ssl", "/shorefast-etc/ssl"),
        ];
        for (name, target) in rows {
            assert_eq!(fs::read_link(into.join(name)).unwrap(), Path::new(target), "{name}");
        }
        assert_eq!(fs::read_dir(&into).unwrap().count(), rows.len());
    }

    #[test]
    fn an_image_without_the_directory_gets_what_is_ours() {
        let directory = tempfile::tempdir().unwrap();
        let (image, into) = (directory.path().join("image"), directory.path().join("prepared"));
        fs::create_dir(&image).unwrap();
        fs::create_dir(&into).unwrap();
        prepare(&image, &into).unwrap();
        assert_eq!(fs::read_dir(&into).unwrap().count(), USUAL.len() + 1);
    }
}
