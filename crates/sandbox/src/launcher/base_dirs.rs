//! The directories of the client's root that are the same for every client. Everything writable in it is provided by the
//! sandbox, starts empty, and is bounded.

use std::path::Path;

use shorefast_sys::Result;

use crate::launcher::node;

/// Which directories of the root the sandbox provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseDirs {
    /// Everything that is writable; the image is shared and read-only.
    Full,
    /// /dev, /proc and /shorefast; the rest belongs to the container.
    Sparse,
}

pub const ETC: &str = "etc";
const DEV: &str = "dev";

const DIRECTORIES: &[&str] = &["sys", "var", "shorefast", "shorefast/files", ETC];

/// Directories that the client owns. They start empty.
const WRITABLE: &[&str] = &["run", "tmp", "root", "shorefast/target", "dev/shm", "var/log", "var/lib", "var/cache", "var/tmp", "var/spool"];

const LINKS_OF_DEV: &[(&str, &str)] =
    &[("dev/fd", "/proc/self/fd"), ("dev/stdin", "/proc/self/fd/0"), ("dev/stdout", "/proc/self/fd/1"), ("dev/stderr", "/proc/self/fd/2")];

const LINKS_OF_VAR: &[(&str, &str)] = &[("var/run", "/run"), ("var/lock", "/run/lock")];

/// What the sandbox adds to a container's directories.
const SPARSE: &[&str] = &["shorefast", "shorefast/files"];

/// Creates all but the image's files. `owner`: the client's uid.
///
/// In a container without a user namespace the client has the host's uid 0: without capabilities, but it owns whatever
/// root owns. So there the path to the target belongs to `stranger`, a different uid, and the client cannot replace a
/// directory on it.
pub fn make(base_dirs: BaseDirs, owner: u32, stranger: u32) -> Result<()> {
    let (directories, writable, links) = match base_dirs {
        BaseDirs::Full => (DIRECTORIES, WRITABLE, LINKS_OF_VAR),
        BaseDirs::Sparse => (SPARSE, &["shorefast/target", "dev/shm"][..], &[][..]),
    };
    directories.iter().try_for_each(node::make_directory)?;
    if base_dirs == BaseDirs::Sparse {
        let strangers = [".", DEV].iter().chain(SPARSE);
        strangers.into_iter().try_for_each(|name| node::give(Path::new(name), stranger))?;
    }
    for name in writable {
        node::make_directory(name)?;
        node::give(Path::new(name), owner)?;
    }
    LINKS_OF_DEV.iter().chain(links).try_for_each(|(link, target)| node::make_link(Path::new(link), Path::new(target)))
}
