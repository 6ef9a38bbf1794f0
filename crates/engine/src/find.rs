//! In: a path or an id from the caller. Out: the record of that mount, without reading the records of all others.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use shorefast_sys as sys;
use sys::bounded_call::{self, Bounded};
use sys::mount::Identity;

use crate::error::Error;
use crate::record::{self, Record};
use crate::records::Records;
use crate::state::Look;

/// A path may lead through any filesystem, including one that hangs.
const RESOLVE: Duration = Duration::from_secs(2);

/// The record of the mount at `target`: the topmost one of ours there. Accepts an id in place of a path.
pub fn find(records: &Records, target: &Path) -> Result<Record, Error> {
    if let Some(record) = by_id(records, target)? {
        return Ok(record);
    }
    let target = std::path::absolute(target).unwrap_or_else(|_| target.to_owned());
    match at(records, &target) {
        Some(record) => Ok(record),
        None => by_target(records, &target)?.ok_or(Error::NotOurs { path: target }),
    }
}

/// The topmost mount of ours at this path, if the path can be resolved. Reads no other record.
pub fn at(records: &Records, path: &Path) -> Option<Record> {
    let path = std::path::absolute(path).ok()?;
    match bounded_call::open(&path, OFlags::PATH, Instant::now() + RESOLVE) {
        Bounded::Done(place) => by_mount(records, &place),
        Bounded::Failed(_) | Bounded::TimedOut => None,
    }
}

/// Whether `target` is an id rather than a path.
pub fn is_id(target: &Path) -> bool {
    let is_one = target.to_str().is_some_and(|text| record::ids_of(text).is_some());
    is_one && std::fs::symlink_metadata(target).is_err()
}

fn by_id(records: &Records, target: &Path) -> Result<Option<Record>, Error> {
    match target.to_str().filter(|_| is_id(target)) {
        Some(id) => match records.get(id)? {
            Some(record) => Ok(Some(record)),
            // Another client serves it by now.
            None => Ok(records.all()?.into_iter().find(|record| record.lineage() == id)),
        },
        None => Ok(None),
    }
}

/// Walks the stack of mounts at this place from the topmost down to the first that is ours.
fn by_mount(records: &Records, place: &OwnedFd) -> Option<Record> {
    let mut mount = sys::mount::identify(place.as_fd()).ok()?;
    let path = path_of(place)?;
    loop {
        let attachment = sys::mount::attachment_of(&mount).ok().flatten()?;
        // A path inside a mount is not its mount point.
        if attachment.place != path {
            return None;
        }
        let is_it = |record: &Record| Identity::from(record.mount) == mount;
        if let Some(record) = records.by_mount(mount.id, mount.unique).filter(is_it) {
            return Some(record);
        }
        mount.id = attachment.parent;
        if let Some(record) = records.by_mount(mount.id, mount.unique) {
            mount = record.mount.into();
        }
    }
}

fn path_of(place: &OwnedFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/thread-self/fd/{}", place.as_raw_fd())).ok()
}

/// By the records and the kernel's mount table. Needed where resolving the path would wait for a server, where the mount was detached
/// lazily or is in another namespace, and for records of earlier builds, which are not indexed.
fn by_target(records: &Records, target: &Path) -> Result<Option<Record>, Error> {
    let look = Look::here(records);
    let mut all = records.all()?;
    all.reverse();
    // What only serves open files is nowhere any more.
    let all = all.into_iter().filter(|record| record.replaced_by.is_none());
    let standings: Vec<_> = all.filter_map(|record| look.at(&record).map(|standing| (record, standing))).collect();
    let is_there = |place: &Option<PathBuf>| place.as_deref() == Some(target);
    let here = standings.iter().find(|(_, standing)| standing.elsewhere.is_none() && is_there(&standing.place));
    // A mount that was moved is not at its old place.
    let left = || {
        standings.iter().find(|(record, standing)| record.target == target && (standing.place.is_none() || standing.elsewhere.is_some()))
    };
    Ok(here.or_else(left).map(|(record, _)| record.clone()))
}
