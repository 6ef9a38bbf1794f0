//! In: a source that is open. Out: whether the client can write to it the way it does, before anything is written: what a client cannot
//! save when it ends is lost.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, OFlags, Statx, StatxFlags};
use shorefast_sandbox::spec::{HostSource, Identity, SourceAccess};
use shorefast_sys::bounded_call::{self, Bounded};

use crate::definition::SourceWrites;
use crate::error::Error;
use crate::plan::ClientPlan;

/// `opened`: what the plan shows to the client, if the caller has opened it already. Where that is not possible, the sandbox reports it.
pub fn require(plan: &ClientPlan, opened: Option<&Bounded<OwnedFd>>, deadline: Instant) -> Result<(), Error> {
    let Some(shown) = plan.spec.source.as_ref().filter(|shown| !shown.is_read_only) else { return Ok(()) };
    let open = |path: &Path| status(&bounded_call::open(path, OFlags::PATH, deadline));
    let Some(status) = opened.map_or_else(|| open(&shown.path), status) else { return Ok(()) };
    match plan.source_writes {
        None if is(&status, FileType::RegularFile) => Err(Error::SourceWrites { path: shown.path.clone(), client: plan.client.clone() }),
        Some(SourceWrites::Replace) => {
            // Only a file is replaced.
            let is_file = open(Path::new(&plan.source)).is_some_and(|source| is(&source, FileType::RegularFile));
            if is_file { replaceable(plan, shown, &status) } else { Ok(()) }
        }
        None | Some(SourceWrites::InPlace) => Ok(()),
    }
}

fn replaceable(plan: &ClientPlan, shown: &HostSource, directory: &Statx) -> Result<(), Error> {
    let is_all_powerful = plan.spec.identity == Identity::HostRoot;
    if is_all_powerful || may_replace(directory.stx_mode.into(), directory.stx_uid, shown.access) {
        return Ok(());
    }
    Err(Error::SourceNotReplaceable { directory: shown.path.clone(), client: plan.client.clone() })
}

/// Whether a file of the directory can be replaced by one whose permissions are those of root's files, or of others.
fn may_replace(mode: u32, owner: u32, access: SourceAccess) -> bool {
    const STICKY: u32 = 0o1000;
    let others = mode & 0o003 == 0o003 && mode & STICKY == 0;
    match access {
        SourceAccess::AsRoot => others || (owner == 0 && mode & 0o300 == 0o300),
        SourceAccess::KeepOwners => true,
        SourceAccess::AsOthers => others,
    }
}

fn status(opened: &Bounded<OwnedFd>) -> Option<Statx> {
    let Bounded::Done(place) = opened else { return None };
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(place, c"", flags, StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::UID).ok()
}

fn is(status: &Statx, kind: FileType) -> bool {
    FileType::from_raw_mode(status.stx_mode.into()) == kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_the_client_cannot_write_to_replaces_nothing() {
        use SourceAccess::{AsOthers, AsRoot, KeepOwners};
        let rows = [
            (0o40755, 0, AsOthers, false),
            (0o40777, 0, AsOthers, true),
            (0o41777, 0, AsOthers, false),
            (0o40755, 0, AsRoot, true),
            (0o40555, 0, AsRoot, false),
            (0o40755, 1000, AsRoot, false),
            (0o40777, 1000, AsRoot, true),
            (0o41777, 0, AsRoot, true),
            (0o41555, 1000, KeepOwners, true),
        ];
        for (mode, owner, access, expected) in rows {
            assert_eq!(may_replace(mode, owner, access), expected, "{mode:o} {owner} {access:?}");
        }
    }
}
