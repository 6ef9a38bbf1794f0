//! The number of mounts beside our images. A client gets copies of the mount that the images are on, and for each copy the kernel visits
//! all mounts directly on it: 0.2 µs each, if they are in no CPU's cache. A separate mount for the images has none on it.

use std::path::Path;

use shorefast_sys::mountinfo::{self, Entry};

use crate::finding::Finding;

/// A tenth of the cost of one of our mounts.
const MANY: usize = 1_000;

pub fn check(images: &Path) -> Option<Finding> {
    let table = mountinfo::read().ok()?;
    let images = std::fs::canonicalize(images).unwrap_or_else(|_| images.to_owned());
    judge(&table, &images)
}

/// `None`: nothing to report.
fn judge(table: &[Entry], images: &Path) -> Option<Finding> {
    let below = mountinfo::covering(table, images)?;
    let beside = table.iter().filter(|entry| entry.parent == below.id).count();
    let (images, below) = (images.display(), below.mount_point.display());
    let finding =
        format!("{beside} mounts are on {below}, which also holds {images}: the kernel walks through all of them whenever a client starts");
    (beside >= MANY).then(|| Finding::warning("images", finding, format!("give it a mount of its own: mount --bind {images} {images}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_on_the_same_mount_counts() {
        let images = Path::new("/var/lib/shorefast");
        let line = |id: usize, parent: usize, point: &str| format!("{id} {parent} 0:{id} / {point} rw - tmpfs t rw\n");
        let table = |parent: usize, more: &str| {
            let many = (10..10 + MANY).map(|id| line(id, parent, &format!("/mnt/{id}")));
            mountinfo::parse([line(1, 0, "/"), line(2, 1, "/mnt"), many.collect(), more.to_owned()].concat().as_bytes())
        };
        let rows = [
            ("on the same mount", table(1, ""), true),
            ("on another", table(2, ""), false),
            ("the images have a mount of their own", table(1, &line(3, 1, "/var/lib/shorefast")), false),
        ];
        for (what, table, is_told) in rows {
            assert_eq!(judge(&table, images).is_some(), is_told, "{what}");
        }
    }
}
