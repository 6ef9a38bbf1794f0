//! In: filesystem types. Out: whether this kernel can mount them, checked before an image is fetched or a server contacted. The check may
//! load a module, so `doctor`, which changes nothing, reads the kernel's lists instead.

use rustix::io::Errno;
use rustix::mount::FsOpenFlags;

use crate::error::Error;

/// Whether a client of these types can mount anything here. One type is enough: a client knows which one it needs only after it has talked
/// to its server. `doctor` uses it too: `is_there` tells whether the kernel has a filesystem.
pub fn can_mount_any(types: &[String], is_there: impl Fn(&str) -> bool) -> bool {
    types.is_empty() || types.iter().any(|fstype| is_there(own_type(fstype)))
}

/// For `fuse.sshfs` the kernel's type is `fuse`.
pub fn own_type(fstype: &str) -> &str {
    fstype.split('.').next().unwrap_or(fstype)
}

pub fn require_any(types: &[String]) -> Result<(), Error> {
    if can_mount_any(types, |fstype| !is_missing(fstype)) {
        return Ok(());
    }
    Err(Error::NotInKernel { types: types.to_vec(), kernel: release() })
}

/// fsopen(2) finds a filesystem as mount(2) does, and loads its module; the context is discarded.
fn is_missing(fstype: &str) -> bool {
    matches!(rustix::mount::fsopen(fstype, FsOpenFlags::FSOPEN_CLOEXEC), Err(Errno::NODEV))
}

fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn one_known_type_is_enough() {
        let rows = [(&["a", "b"][..], true), (&["b", "a.sub"], true), (&["b", "c"], false), (&["ab"], false), (&[], true)];
        for (names, expected) in rows {
            assert_eq!(can_mount_any(&types(names), |fstype| fstype == "a"), expected, "{names:?}");
        }
        if !rustix::process::geteuid().is_root() {
            assert!(require_any(&types(&["nosuchfs"])).is_ok(), "who may not ask hears of nothing that is missing");
            return;
        }
        assert!(require_any(&types(&["tmpfs", "nosuchfs"])).is_ok());
        assert!(require_any(&[]).is_ok());
        let error = require_any(&types(&["nosuchfs"])).unwrap_err().to_string();
        assert!(error.starts_with("this kernel has no filesystem nosuchfs"), "{error}");
    }
}
