//! For an uninstallation: removes what images and mounts left on the host. Nothing while anything of ours lives, or is mounted there.

use std::fs;
use std::path::{Path, PathBuf};

use shorefast_image::Store;
use shorefast_image::store::discard;
use shorefast_sys as sys;

use crate::error::Error;
use crate::records::Records;
use crate::{images, list, reconcile, services};

/// What we make in the root directory. Whatever else is there is somebody else's, and stays.
const MADE: [&str; 9] = ["rootfs", "names", "blobs", "packages", "remembered", "services", "configuration", "history", "lock"];

/// Removes all of it. Returns what is left in the two directories.
pub fn all(records: &Records, store: &Store, root: &Path) -> Result<Vec<PathBuf>, Error> {
    reconcile::all(records, store)?;
    refuse_if_used(records, root)?;
    // Under the store's lock: no mount begins meanwhile.
    store.clear(|| images::users(records)).map_err(images::about_the_store)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Purge { path, source }
    };
    for name in MADE {
        let path = root.join(name);
        match fs::symlink_metadata(&path) {
            Err(_) => {}
            Ok(found) if found.is_dir() => discard::directory(&path).map_err(failed(&path))?,
            Ok(_) => fs::remove_file(&path).map_err(failed(&path))?,
        }
    }
    discard::directory(records.directory()).map_err(failed(records.directory()))?;
    // A directory that is not empty, or that is a mount point, stays.
    let _ = fs::remove_dir(root);
    Ok(fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path()).collect())
}

fn refuse_if_used(records: &Records, root: &Path) -> Result<(), Error> {
    let listing = list::all(records)?;
    let mut users: Vec<_> = listing.mounts.iter().map(|mount| mount.target().display().to_string()).collect();
    users.extend(listing.in_progress.iter().map(|mount| format!("a mount that is being made ({})", mount.id)));
    users.extend(services::record::all(records).into_iter().map(|running| format!("the service {}", running.service.name)));
    let table = sys::mountinfo::read().map_err(Error::Wait)?;
    let is_below = |point: &Path| [root, records.directory()].iter().any(|top| point.starts_with(top) && point != *top);
    users.extend(table.iter().filter(|entry| is_below(&entry.mount_point)).map(|entry| entry.mount_point.display().to_string()));
    if users.is_empty() { Ok(()) } else { Err(Error::StillUsed { users }) }
}
