//! In: a filesystem type. Out: the helper that mount(8) would run for it on this host, searched as mount(8) searches.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Helper {
    Installed(PathBuf),
    /// Shorefast under that name: mount(8) would call us again, in an endless loop.
    Ours(PathBuf),
    /// The name it would have.
    Missing(String),
}

/// Where mount(8) looks for helpers.
const HELPERS: &[&str] = &["/sbin", "/sbin/fs.d", "/sbin/fs", "/usr/sbin"];
/// Where `mount.fuse` looks for the client itself.
pub const PROGRAMS: &[&str] = &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

pub fn find(fstype: &str) -> Helper {
    let is_ours = |path: &Path| same_file(path, Path::new("/proc/self/exe"));
    find_with(fstype, |path| path.is_file(), is_ours)
}

fn find_with(fstype: &str, exists: impl Fn(&Path) -> bool, is_ours: impl Fn(&Path) -> bool) -> Helper {
    let name = format!("mount.{fstype}");
    let in_one_of =
        |directories: &[&str], name: &str| directories.iter().map(|place| Path::new(place).join(name)).find(|path| exists(path));
    // A type is not a path: reject `../x`.
    if fstype.contains('/') {
        return Helper::Missing(name);
    }
    let generic = || {
        // `fuse.sshfs` without a helper of that name: mount.fuse runs sshfs, if it is installed.
        let (family, program) = fstype.split_once('.')?;
        in_one_of(HELPERS, &format!("mount.{family}"))?;
        in_one_of(PROGRAMS, program)
    };
    match in_one_of(HELPERS, &name).or_else(generic) {
        Some(path) if is_ours(&path) => Helper::Ours(path),
        Some(path) => Helper::Installed(path),
        None => Helper::Missing(name),
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_are_found_as_mount_finds_them() {
        let here = ["/sbin/mount.nfs", "/usr/sbin/mount.cifs", "/sbin/mount.fuse", "/usr/bin/sshfs", "/sbin/mount.gluster"];
        let rows = [
            ("nfs", Helper::Installed("/sbin/mount.nfs".into())),
            ("cifs", Helper::Installed("/usr/sbin/mount.cifs".into())),
            ("fuse.sshfs", Helper::Installed("/usr/bin/sshfs".into())),
            ("fuse.bindfs", Helper::Missing("mount.fuse.bindfs".into())),
            ("gluster", Helper::Ours("/sbin/mount.gluster".into())),
            ("ext4", Helper::Missing("mount.ext4".into())),
            ("../bin/nfs", Helper::Missing("mount.../bin/nfs".into())),
        ];
        for (fstype, helper) in rows {
            let exists = |path: &Path| here.iter().any(|known| Path::new(known) == path);
            assert_eq!(find_with(fstype, exists, |path| path.ends_with("mount.gluster")), helper, "{fstype}");
        }
    }
}
