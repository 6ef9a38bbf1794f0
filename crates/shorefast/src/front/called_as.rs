//! In: argv[0]. Out: the front to run; one binary has several.

use std::ffi::OsStr;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CalledAs {
    Shorefast,
    /// kubelet's `--experimental-mounter-path`.
    Mounter,
    /// mount(8)'s helper for a type: `mount.TYPE`.
    Mount(String),
    /// umount(8)'s: `umount.TYPE`.
    Umount(String),
}

/// Only the last component of a path counts: a symbolic link or a copy of us may be anywhere.
pub fn of(arg0: &OsStr) -> CalledAs {
    let name = Path::new(arg0).file_name().unwrap_or_default().to_string_lossy();
    match name.split_once('.') {
        None if name == "mounter" => CalledAs::Mounter,
        Some(("mount", fstype)) if !fstype.is_empty() => CalledAs::Mount(fstype.to_owned()),
        Some(("umount", fstype)) if !fstype.is_empty() => CalledAs::Umount(fstype.to_owned()),
        _ => CalledAs::Shorefast,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides() {
        let rows = [
            ("shorefast", CalledAs::Shorefast),
            ("/usr/bin/shorefast", CalledAs::Shorefast),
            ("", CalledAs::Shorefast),
            ("/", CalledAs::Shorefast),
            ("mounter", CalledAs::Mounter),
            ("/home/kubernetes/containerized_mounter/mounter", CalledAs::Mounter),
            ("/mounter/shorefast-1.2", CalledAs::Shorefast),
            ("/sbin/mount.nfs4", CalledAs::Mount("nfs4".to_owned())),
            ("mount.fuse.sshfs", CalledAs::Mount("fuse.sshfs".to_owned())),
            ("umount.nfs", CalledAs::Umount("nfs".to_owned())),
            ("mount.", CalledAs::Shorefast),
            ("mount", CalledAs::Shorefast),
        ];
        for (arg0, expected) in rows {
            assert_eq!(of(OsStr::new(arg0)), expected, "{arg0}");
        }
    }
}
