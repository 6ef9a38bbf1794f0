//! The client of tests/hostile: a separate program, linked statically, so that it runs from an image that holds nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Built once, and again when its source is newer. `cargo xtask test` does it before any test has a deadline.
pub fn client() -> PathBuf {
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
        let status = cargo.status().expect("cargo runs");
        assert!(status.success(), "tests/hostile does not compile");
    }
    program
}

/// An image that holds nothing but this client, at /usr/bin/hostile.
pub fn make_image(directory: &Path) {
    for name in ["usr/bin", "etc", "tmp", "run", "var", "proc", "dev", "root"] {
        fs::create_dir_all(directory.join(name)).expect("the image can be written to");
    }
    let program = directory.join("usr/bin/hostile");
    fs::copy(client(), &program).expect("the client can be copied");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

fn newest(directory: &Path) -> SystemTime {
    files_below(directory).iter().filter_map(|path| fs::metadata(path).ok()?.modified().ok()).max().unwrap_or(UNIX_EPOCH)
}

/// Everything below it except directories.
pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() && !path.is_symlink() { files_below(&path) } else { vec![path] }).collect()
}
