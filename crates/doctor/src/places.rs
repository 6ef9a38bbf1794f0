//! Whether our directories can be written to and have free space.

use std::path::Path;

use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};

use crate::finding::Finding;

/// With less, the next image may not fit.
const LITTLE: u64 = 512 << 20;
/// With less, not even the record and the log of one mount fit.
const A_RECORD: u64 = 200 << 10;
const FEW_FILES: u64 = 16;

pub fn check(subject: &str, directory: &Path) -> Finding {
    // A missing directory will be created in its nearest existing ancestor.
    let existing = directory.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(Path::new("/"));
    let shown = directory.display();
    match statvfs(existing) {
        Err(error) => Finding::bad(subject, format!("{shown} cannot be examined: {error}"), "choose another with --run-dir or --root"),
        Ok(information) if information.f_flag.contains(StatVfsMountFlags::RDONLY) || access(existing, Access::WRITE_OK).is_err() => {
            Finding::bad(subject, format!("{shown} is not writable"), "run it as root, or choose another with --run-dir or --root")
        }
        Ok(information) => {
            let free = information.f_bavail.saturating_mul(information.f_frsize);
            let is_full = free < A_RECORD || (information.f_files > 0 && information.f_favail < FEW_FILES);
            if is_full {
                return Finding::bad(
                    subject,
                    format!("{shown} is full: nothing can be written there"),
                    "free some space there, or choose another place with --run-dir or --root",
                );
            }
            if subject == "images" && free < LITTLE {
                let finding = format!("{shown} has only {} MiB left", free >> 20);
                return Finding::warning(subject, finding, "`shorefast image gc`, or choose another place with --root");
            }
            Finding::good(subject, format!("{shown} can be written to"))
        }
    }
}
