//! Who sees a mount that is made here: in a private directory nobody who already has a mount namespace of its own, such as a
//! container with a volume there. Read from the kernel's table; the directories themselves are not touched.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use shorefast_sys::mountinfo::unescape;

use crate::finding::Finding;

const KUBELET: &str = "/var/lib/kubelet";

pub fn check() -> Option<Finding> {
    let table = std::fs::read("/proc/thread-self/mountinfo").ok()?;
    let (mount_point, shared) = covering(&table, Path::new(KUBELET))?;
    Some(judge(&mount_point, shared))
}

fn judge(mount_point: &str, shared: bool) -> Finding {
    if shared {
        return Finding::good("propagation", format!("{mount_point} is shared: containers see mounts that are made later"));
    }
    Finding::warning(
        "propagation",
        format!("{mount_point} is private: containers that run already do not see mounts that are made later"),
        format!("mount --make-rshared {mount_point}"),
    )
}

/// The mount that a path is in: of all that are above it the deepest, and of those the last.
fn covering(table: &[u8], path: &Path) -> Option<(String, bool)> {
    let lines = table.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let mount_point = unescape(fields.nth(4)?);
        let shared = fields.skip(1).take_while(|field| field != b"-").any(|field| field.starts_with(b"shared:"));
        Some((mount_point, shared))
    });
    let above = lines.filter(|(mount_point, _)| path.starts_with(std::ffi::OsStr::from_bytes(mount_point)));
    let deepest = above.max_by_key(|(mount_point, _)| mount_point.len())?;
    Some((String::from_utf8_lossy(&deepest.0).into_owned(), deepest.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_above_the_path_decides() {
        let table = b"1 0 8:1 / / rw shared:1 - ext4 /dev/a rw\n\
                      2 1 8:2 / /var rw - ext4 /dev/b rw\n\
                      3 1 8:3 / /var/lib/kubelet/pods/x rw shared:2 - tmpfs t rw\n\
                      4 1 8:4 / /var/lib/kube rw shared:3 master:1 - tmpfs t rw\n";
        let rows = [("/var/lib/kubelet", "/var", false), ("/srv", "/", true), ("/var/lib/kube/x", "/var/lib/kube", true)];
        for (path, mount_point, shared) in rows {
            assert_eq!(covering(table, Path::new(path)), Some((mount_point.to_owned(), shared)), "{path}");
        }
        assert_eq!(covering(b"", Path::new("/")), None);
    }
}
