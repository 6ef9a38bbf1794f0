//! A bare host: a root filesystem with only our binary, /proc, /etc/resolv.conf and one writable directory. No shell, no libc (except the
//! libraries that a non-static binary needs), no device except /dev/null, no certificates, no package manager.

use std::fs;
use std::path::{Path, PathBuf};

use crate::isolation::{enter_root, mount_tmpfs};
use crate::{Host, client, command};

/// The directory of its image store and its records.
pub const DATA: &str = "/data";
pub const BINARY: &str = "/shorefast";
/// Where the package archive that stands for Debian's is visible.
pub const ARCHIVE: &str = "/archive";

/// From now on, the calling thread and the processes that it starts are on such a host.
pub fn enter(host: &Host) {
    let root = host.directory("bare");
    mount_tmpfs(&root);
    for directory in ["proc", "dev", "etc", "data", "archive", "mnt"] {
        fs::create_dir(root.join(directory)).expect("an empty root");
    }
    let copy = |from: &Path, to: &str| {
        let place = root.join(to.trim_start_matches('/'));
        fs::create_dir_all(place.parent().expect("below the root")).expect("an empty root");
        fs::copy(from, &place).unwrap_or_else(|error| panic!("cannot copy {}: {error}", from.display()));
    };
    copy(host.binary(), BINARY);
    libraries(host.binary()).iter().for_each(|library| copy(library, &library.display().to_string()));
    fs::write(root.join("etc/resolv.conf"), "nameserver 127.0.0.1\n").expect("an empty root");
    let at = |name: &str| root.join(name).display().to_string();
    command::run(&["mount", "-t", "proc", "proc", &at("proc")]);
    command::run(&["cp", "-a", "/dev/null", &at("dev")]);
    command::run(&["mount", "--bind", &client::current_packages().display().to_string(), &at("archive")]);
    enter_root(&root);
    host.settle();
}

/// The libraries that ldd lists; none for a static binary.
fn libraries(binary: &Path) -> Vec<PathBuf> {
    let mut ldd = std::process::Command::new("ldd");
    ldd.arg(binary);
    let paths = command::finish(ldd).stdout;
    paths.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':')).map(PathBuf::from).collect()
}
