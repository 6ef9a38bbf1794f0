//! In: a live or dead mount's record, and the plan for its next client. Out: that client, which serves, and is seen by nobody yet.

use std::time::Instant;

use rustix::fs::OFlags;
use shorefast_sys as sys;
use sys::bounded_call::{self, Bounded};

use crate::bring_up::{self, Destination, Serving};
use crate::error::{Error, Obstacle};
use crate::plan::ClientPlan;
use crate::record::Record;
use crate::records::Records;
use crate::{Host, mount, source_file};

/// Its mount will be wherever that of `old` is. Dropped: it never was.
pub fn start<'a>(records: &'a Records, old: &Record, plan: &ClientPlan, host: &Host) -> Result<Serving<'a>, Error> {
    let until = Instant::now() + plan.timeout;
    let source = plan.spec.source.as_ref().map(|source| bounded_call::open(&source.path, OFlags::PATH, until));
    if let Some(Bounded::Done(source)) = &source {
        let on = sys::mount::identify(std::os::fd::AsFd::as_fd(source)).map_err(Error::Wait)?;
        if (on.major, on.minor) == (old.mount.major, old.mount.minor) {
            return Err(Error::CannotReplace { path: old.target.clone(), why: Obstacle::ShowsItself });
        }
    }
    source_file::require(plan, source.as_ref(), until)?;
    bring_up::client(plan, host, records, Destination::InPlaceOf(old), mount::prepare()?, source)
}
