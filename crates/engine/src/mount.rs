//! In: a plan. Out: a mount and its record. Every step that changes the host returns a guard; dropping it undoes the step, so an error
//! anywhere leaves nothing behind. After a kill, the keeper or the next call cleans up.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Instant;

use shorefast_sandbox::Prepared;
use shorefast_sandbox::spec::Shape;
use shorefast_sys as sys;
use sys::bounded_call::Bounded;

use crate::attach::{self, Target};
use crate::bring_up::{self, Destination};
use crate::error::{self, Error, Kind};
use crate::journal::{self, About, Event, Level};
use crate::kill_point::{self, Point};
use crate::past::{self, Ending, Past};
use crate::plan::ClientPlan;
use crate::record::{self, Record};
use crate::records::Records;
use crate::request::Existing;
use crate::{Host, Plan, existing, host_mount, reconcile, services, source_file, target_lock, text};

/// A mount that is about to be made. Its sandbox is being set up on another CPU while the caller parses its arguments and plans: that part
/// of the setup needs no plan.
#[derive(Debug)]
pub struct Mounter {
    prepared: Result<Prepared, Error>,
}

impl Mounter {
    /// Called first of all. An error here is reported by [`mount`](Self::mount), so that an error in the call itself takes precedence.
    pub fn prepare() -> Self {
        Self { prepared: prepare() }
    }

    /// The record of the mount; none if mount(8) made it.
    pub fn mount(self, plan: &Plan, host: &Host) -> Result<Option<Record>, Error> {
        match plan {
            Plan::Client(plan) => mount_by_client(plan, host, self.prepared.or_else(|_| prepare())?).map(Some),
            Plan::Host(plan) => {
                drop(self.prepared);
                require_root()?;
                host_mount::run(plan).map(|()| None)
            }
        }
    }
}

fn require_root() -> Result<(), Error> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(Error::NotRoot) }
}

/// In the process that mounts, and once.
pub fn prepare() -> Result<Prepared, Error> {
    require_root()?;
    // In this process: the client, its keeper and its services inherit it from us.
    sys::inherited::reset();
    shorefast_sandbox::prepare(Shape::USUAL).map_err(Error::Sandbox)
}

fn mount_by_client(plan: &ClientPlan, host: &Host, prepared: Prepared) -> Result<Record, Error> {
    let result = make(plan, host, prepared);
    tell(plan, host, &result);
    if !plan.services.is_empty() {
        services::settle(&Records::at(&host.run_dir));
    }
    result
}

/// Once: a mount that is refused because it is there already has not failed, and neither has a call that makes no sense.
fn tell(plan: &ClientPlan, host: &Host, result: &Result<Record, Error>) {
    match result {
        Ok(record) => {
            let about = About { id: Some(&record.id), target: &record.target, client: &record.client };
            let what = format!("mounted {} ({})", text::escape(record.shown_source().as_bytes()), record.fstype);
            journal::tell(Level::Info, Event::Mounted, about, &what);
        }
        // Another call is making it.
        Err(Error::Underway { .. }) => {}
        Err(error) => match error.kind() {
            Kind::Usage | Kind::Privilege | Kind::AlreadySame | Kind::AlreadyDifferent => {}
            _ => past::failed(&host.run_dir, attempt(plan), error::chain(error, |error| error.to_string())),
        },
    }
}

/// The story of a mount that failed before it was begun.
fn attempt(plan: &ClientPlan) -> Past {
    Past {
        id: None,
        target: bring_up::shown_target(plan),
        source: Some(text::without_password(&plan.source)),
        fstype: None,
        client: plan.client.clone(),
        image: plan.root.to_string(),
        digest: None,
        mode: plan.mode.to_string(),
        since: record::now(),
        until: None,
        label: plan.recipe.request.label.clone(),
        first: None,
        how: Ending::Failed,
        end: None,
        crashes: Vec::new(),
        why: None,
        maker: None,
    }
}

fn make(plan: &ClientPlan, host: &Host, prepared: Prepared) -> Result<Record, Error> {
    let records = Records::at(&host.run_dir);
    let until = Instant::now() + plan.timeout;
    let (mut target, source) = open_places(plan, until)?;
    let _only = target_lock::take(&host.run_dir, target.namespace()?, &target.path(until)?, until)?;
    target.refresh(until)?;
    if plan.existing == Existing::Refuse {
        existing::refuse(&records, &target, plan)?;
    }
    kill_point::pass(Point::TargetOpened);
    source_file::require(plan, source.as_ref(), until)?;
    let serving = bring_up::client(plan, host, &records, Destination::At(&target), prepared, source)?;
    let clear = |dead| reconcile::clear_dead(&records, dead);
    let attached = attach::at(&serving.mounted.mount, serving.mounted.identity, &target, serving.deadline, clear)?;
    kill_point::pass(Point::Attached);
    if !serving.mounted.services.is_empty() {
        services::remember(&records, serving.deadline);
    }
    let released = serving.release(plan)?;
    attached.keep();
    Ok(released.attached().finish())
}

/// The target, and the source if that is a host path.
fn open_places(plan: &ClientPlan, deadline: Instant) -> Result<(Target, Option<Bounded<OwnedFd>>), Error> {
    match (&plan.spec.source, &plan.namespace) {
        (Some(source), None) => {
            attach::open_with_source(&plan.target, &source.path, deadline).map(|(target, source)| (target, Some(source)))
        }
        _ => Ok((attach::open(&plan.target, plan.namespace.as_deref(), deadline)?, None)),
    }
}
