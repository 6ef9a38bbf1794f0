//! Mount propagation: below a private mount, a new mount is not visible in existing mount namespaces, such as that of a container with a
//! volume there. Read from the kernel's mount table; the directories themselves are not touched.

use std::path::Path;

use shorefast_sys::mountinfo::{self, Entry};

use crate::finding::Finding;

const KUBELET: &str = "/var/lib/kubelet";

pub fn check() -> Option<Finding> {
    let table = mountinfo::read().ok()?;
    mountinfo::covering(&table, Path::new(KUBELET)).map(judge)
}

fn judge(mount: &Entry) -> Finding {
    let mount_point = mount.mount_point.display();
    if mount.shared {
        return Finding::good("propagation", format!("{mount_point} is shared: containers see mounts that are made later"));
    }
    Finding::warning(
        "propagation",
        format!("{mount_point} is private: containers that run already do not see mounts that are made later"),
        format!("mount --make-rshared {mount_point}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn a_private_mount_is_named_with_its_remedy() {
        let table = mountinfo::parse(b"1 0 8:1 / / rw shared:1 - ext4 /dev/a rw\n2 1 8:2 / /var rw - ext4 /dev/b rw\n");
        assert_eq!(judge(&table[0]).verdict, Verdict::Good);
        assert_eq!(judge(&table[1]).remedy.as_deref(), Some("mount --make-rshared /var"));
    }
}
