//! The image with the hostile client in it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{XattrFlags, setxattr};
use shorefast_tests::command;

use crate::surroundings::WITNESS;

pub(crate) const IMAGE: &str = "/srv/image";

/// The client, twice more with privileges that must not count, and files that everybody could write to if the image were writable.
pub(crate) fn make_image() -> PathBuf {
    let client = hostile_client();
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
    image
}

/// Built once, static, so that it runs from an image that holds nothing else; built again when its source is newer.
pub(crate) fn hostile_client() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    // Not the directory of the build that runs this test: that one may be locked.
    let target = source.join("../../target/hostile");
    let program = target.join(&triple).join("release/hostile");
    let built = fs::metadata(&program).and_then(|meta| meta.modified()).unwrap_or(UNIX_EPOCH);
    if newest(&source) > built {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.current_dir(&source).arg("rustc").args(["--release", "--offline", "--target", &triple, "--target-dir"]).arg(&target);
        cargo.args(["--", "-C", "target-feature=+crt-static"]);
        command::finish(cargo).succeeds();
    }
    program
}

fn newest(directory: &Path) -> SystemTime {
    files_below(directory).iter().filter_map(|path| fs::metadata(path).ok()?.modified().ok()).max().unwrap_or(UNIX_EPOCH)
}

/// Everything below that is no directory.
pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() && !path.is_symlink() { files_below(&path) } else { vec![path] }).collect()
}
