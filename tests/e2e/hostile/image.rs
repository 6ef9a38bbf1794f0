//! The image with the hostile client in it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr};
use shorefast_tests::hostile;

use crate::surroundings::WITNESS;

pub(crate) const IMAGE: &str = "/srv/image";

/// The client, twice more with privileges that must not count, and files that everybody could write to if the image were writable.
pub(crate) fn make_image() -> PathBuf {
    let client = hostile::client();
    let image = PathBuf::from(IMAGE);
    for directory in ["usr/bin", "etc/witness.d", "tmp", "run", "var", "proc", "dev", "root", "mnt"] {
        fs::create_dir_all(image.join(directory)).expect("the image can be written to");
    }
    let mode = |path: &str, mode| fs::set_permissions(image.join(path), fs::Permissions::from_mode(mode)).expect("it is ours");
    for (name, bits) in [("hostile", 0o755), ("hostile-setuid", 0o6755), ("hostile-filecaps", 0o755)] {
        let path = format!("usr/bin/{name}");
        fs::copy(&client, image.join(&path)).expect("the client can be copied");
        mode(&path, bits);
    }
    // Version 2, effective: all of them permitted and inherited.
    let mut capabilities = 0x0200_0001u32.to_le_bytes().to_vec();
    capabilities.extend([0xff; 8]);
    capabilities.extend([0xff, 0x01, 0, 0, 0xff, 0x01, 0, 0]);
    setxattr(image.join("usr/bin/hostile-filecaps"), "security.capability", &capabilities, XattrFlags::empty()).expect("root may do that");
    for file in ["etc/witness", "etc/witness.d/file"] {
        fs::write(image.join(file), WITNESS).expect("the image can be written to");
        mode(file, 0o666);
    }
    mode("etc/witness.d", 0o777);
    make_device(&image.join("mnt/zero"));
    // In a sandbox the source of the mount is there; without one, the rows find the same.
    make_source(&image.join("shorefast/source"));
    image
}

/// A directory of the host with things in it that a client may not touch, and one that it may write to.
pub(crate) fn make_source(source: &Path) {
    for directory in ["private", "open"] {
        fs::create_dir_all(source.join(directory)).expect("the test's own directory");
    }
    let mode = |name: &str, mode| fs::set_permissions(source.join(name), fs::Permissions::from_mode(mode)).expect("it is ours");
    for (name, bits) in [("readme", 0o644), ("secret", 0o600), ("theirs", 0o600), ("program", 0o4755), ("private/file", 0o644)] {
        fs::write(source.join(name), WITNESS).expect("the test's own directory");
        mode(name, bits);
    }
    std::os::unix::fs::chown(source.join("theirs"), Some(1000), Some(1000)).expect("root may do that");
    mode("private", 0o700);
    mode(OPEN, 0o777);
    make_device(&source.join("zero"));
}

/// For everybody to open, were it not for the mount that it is on.
fn make_device(place: &Path) {
    if !place.exists() {
        mknodat(CWD, place, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(1, 5)).expect("root may do that");
        fs::set_permissions(place, fs::Permissions::from_mode(0o666)).expect("it is ours");
    }
}

/// Of a source, what everybody may write to.
pub(crate) const OPEN: &str = "open";
