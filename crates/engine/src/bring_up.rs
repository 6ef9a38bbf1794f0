//! In: a plan, a prepared sandbox, and where its mount will be. Out: a client that serves its mount, recorded, and attached nowhere yet.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::time::Instant;

use shorefast_broker::{Broker, Mounted, SelfMountObserver};
use shorefast_sandbox::launcher::launch::LaunchContext;
use shorefast_sandbox::{Cgroup, Client, Prepared};
use shorefast_sys as sys;
use sys::bounded_call::Bounded;
use sys::shim::Program;

use crate::attach::Target;
use crate::client_root::{self, ClientRoot, RootFiles};
use crate::error::Error;
use crate::journal::{self, About, Event, Level};
use crate::keeper::Keeper;
use crate::kill_point::{self, Point};
use crate::mount_source::MountSource;
use crate::plan::ClientPlan;
use crate::process::Process;
use crate::record::{Record, Replaces, now};
use crate::records::{Begun, Records, Underway};
use crate::serve::{self, ServeContext};
use crate::start::{self, Started};
use crate::{Host, kernel, reconcile, remembered, server, services, text};

/// Where the mount will be.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    At(&'a Target),
    /// Wherever the mount with this record is.
    InPlaceOf(&'a Record),
}

impl Destination<'_> {
    fn path(&self, deadline: Instant) -> Result<PathBuf, Error> {
        match self {
            Self::At(target) => target.path(deadline),
            Self::InPlaceOf(old) => Ok(old.target.clone()),
        }
    }

    fn namespace(&self) -> Result<u64, Error> {
        match self {
            Self::At(target) => target.namespace(),
            Self::InPlaceOf(old) => Ok(old.namespace),
        }
    }

    fn predecessor(&self) -> Option<&Record> {
        match self {
            Self::At(_) => None,
            Self::InPlaceOf(old) => Some(old),
        }
    }
}

/// Dropping it ends the client and removes every trace. The order of the fields is the order in which they are undone.
#[derive(Debug)]
pub struct Serving<'a> {
    pub mounted: Mounted,
    pub record: Record,
    /// For what is left to do.
    pub deadline: Instant,
    client: Client,
    keeper: Keeper,
    cgroup: CgroupGuard,
    begun: Begun<'a>,
    log: PathBuf,
}

/// A client that lives as long as its mount does: while that is attached somewhere, or held here. The record is not finished yet.
#[derive(Debug)]
pub struct Released<'a> {
    pub record: Record,
    pub mounted: Mounted,
    begun: Begun<'a>,
}

impl<'a> Released<'a> {
    /// The mount is where it belongs, and held by that from here on: whoever unmounts it does not find it busy.
    pub fn attached(self) -> Attached<'a> {
        Attached { record: self.record, begun: self.begun }
    }
}

/// `source`: the client's source, opened by the caller, if it is a host path.
pub fn client<'a>(
    plan: &ClientPlan,
    host: &Host,
    records: &'a Records,
    destination: Destination<'_>,
    prepared: Prepared,
    source: Option<Bounded<OwnedFd>>,
) -> Result<Serving<'a>, Error> {
    kernel::require_any(&plan.policy.kernel_types)?;
    services::require(&plan.needs)?;
    let ClientRoot { prepared, root_files, held } = client_root::find(plan, host, prepared)?;
    let assigned = prepared.with_root(&plan.spec, root_files.files()).map_err(Error::Sandbox)?.with_source(source);
    kill_point::pass(Point::ImageResolved);
    // The image may have taken minutes to arrive; the caller's timeout is for the mount.
    let deadline = Instant::now() + plan.timeout;

    let underway = underway(plan, &root_files);
    let before = destination.predecessor();
    let begun = records.begin_like(before, plan.spec.processes, root_files.digest(), Some(&underway), deadline)?;
    drop(held);
    kill_point::pass(Point::RecordBegun);
    let cgroup = CgroupGuard(Cgroup::create(&begun.id, &plan.limits).map_err(Error::Sandbox)?);
    kill_point::pass(Point::CgroupMade);
    let remembered = remembered::read(plan, host.images.root(), deadline)?;
    let program = Program::default();
    let context = LaunchContext { ids: begun.ids, cgroup: &cgroup.0, log: &begun.log, program: &program, recipe: None, deadline };
    let recipe = plan.recipe.at(begun.digest, host.images.root());
    let started = start::client(assigned, plan, recipe, &context, records, &begun, &remembered)?;
    let Started { keeper, client, listener, view, sandbox } = started;
    // Cleans up after killed calls. Done now, because the client needs time to start.
    reconcile::abandoned(records)?;
    if plan.policy.kernel_types.iter().any(|fstype| !fstype.starts_with("fuse")) {
        reconcile::sweep(records)?;
    }

    let beside = services::plan::make(&plan.services, root_files.rootfs(), &plan.client, begun.digest, host.images.root());
    let mut start_services = services::starter(records, &beside, deadline);
    let mut mount_source = match listener {
        Some(listener) => MountSource::Broker(Broker::new(listener, &plan.policy, view, deadline).with_services(&mut start_services)),
        None => MountSource::Client(SelfMountObserver::new(&plan.policy, view)),
    };
    let log = records.log(&begun.id);
    let serving =
        ServeContext { daemon: plan.daemon, deadline, allowed: plan.timeout, log: &log, target: &plan.target, services: &plan.services };
    let parts = Parts {
        plan,
        root_files: &root_files,
        destination,
        begun: &begun,
        client: &client,
        keeper: &keeper,
        cgroup: &cgroup.0,
        sandbox,
        deadline,
    };
    let mut made = None;
    let commit = |mounted: &Mounted| {
        let record = parts.describe(mounted, services::used_by(mounted, &plan.client, records))?;
        begun.commit(&record)?;
        made = Some(record);
        Ok(())
    };
    serve::until_complete(&client, &mut mount_source, &serving, commit)?;
    remembered.keep(pid_of(&client))?;
    kill_point::pass(Point::Served);
    root_files.join_cgroups(client.pid())?;
    if mount_source.mounted().is_some_and(|mounted| mounted.is_fuse) {
        mount_source.hide()?;
    }
    tell_refused(&mount_source.refused(), plan, &begun.id);
    let mounted = mount_source.into_mounted().expect("a complete mount is mounted");
    let record = made.expect("a complete mount was recorded");
    Ok(Serving { mounted, record, deadline, client, keeper, cgroup, begun, log })
}

/// The client was refused a call and goes on; where it does not, that is part of the error.
fn tell_refused(refused: &[shorefast_broker::Refusal], plan: &ClientPlan, id: &str) {
    /// One that tries again and again says nothing new.
    const TOLD: usize = 5;
    for refusal in refused.iter().take(TOLD) {
        let about = About { id: Some(id), target: &shown_target(plan), client: &plan.client };
        journal::tell(Level::Warning, Event::Refused, about, &format!("a call of its client was refused: {}", refusal.reason));
    }
}

/// A mount at its place. The record is not finished yet.
#[derive(Debug)]
pub struct Attached<'a> {
    pub record: Record,
    begun: Begun<'a>,
}

impl Attached<'_> {
    /// Writes the record again, with what has changed in it.
    pub fn commit(&self) -> Result<(), Error> {
        self.begun.commit(&self.record)
    }

    pub fn finish(self) -> Record {
        self.begun.finish();
        kill_point::pass(Point::RecordFinished);
        self.record
    }
}

impl<'a> Serving<'a> {
    /// From here on the client lives without this process, as long as its mount does.
    pub fn release(self, plan: &ClientPlan) -> Result<Released<'a>, Error> {
        let Self { mut mounted, record, deadline, client, keeper, cgroup, begun, log } = self;
        let serving = ServeContext {
            daemon: plan.daemon,
            deadline,
            allowed: plan.timeout,
            log: &log,
            target: &plan.target,
            services: &plan.services,
        };
        if mounted.is_fuse {
            let serves = server::serving(pid_of(&client));
            // Not before the client serves: until then, its death has to be seen as an error at once.
            let connection = serves.filter(|_| record.heal.is_some()).and_then(|pid| server::connection_of(pid, deadline));
            keeper.release(connection.as_ref().map(|connection| connection.as_fd())).map_err(Error::Keeper)?;
            kill_point::pass(Point::KeeperReleased);
            client.keep(serves.and_then(server::pid_inside)).map_err(|_| serve::ended_early(&serving))?;
            cgroup.keep();
        } else {
            keeper.dismiss();
            kill_point::pass(Point::KeeperReleased);
            drop(client);
            drop(cgroup);
        }
        kill_point::pass(Point::ClientReleased);
        mounted.keep();
        Ok(Released { record, mounted, begun })
    }
}

/// The target as the caller names it, absolute.
pub fn shown_target(plan: &ClientPlan) -> PathBuf {
    std::path::absolute(&plan.target).unwrap_or_else(|_| plan.target.clone())
}

/// For `list`, until there is a record.
fn underway(plan: &ClientPlan, root_files: &RootFiles) -> Underway {
    Underway {
        target: shown_target(plan),
        source: Some(text::without_password(&plan.source)),
        client: plan.client.clone(),
        image: root_files.name(plan),
        mode: plan.mode.to_string(),
        since: now(),
    }
}

fn pid_of(client: &Client) -> i32 {
    client.pid().as_raw_nonzero().get()
}

/// What a record is made from.
struct Parts<'a> {
    plan: &'a ClientPlan,
    root_files: &'a RootFiles,
    destination: Destination<'a>,
    begun: &'a Begun<'a>,
    client: &'a Client,
    keeper: &'a Keeper,
    cgroup: &'a Cgroup,
    sandbox: Option<u64>,
    deadline: Instant,
}

impl Parts<'_> {
    fn describe(&self, mounted: &Mounted, services: Vec<String>) -> Result<Record, Error> {
        let Self { plan, root_files, destination, begun, client, keeper, cgroup, sandbox, deadline } = self;
        let init = Process::of_ours(pid_of(client)).filter(|_| mounted.is_fuse);
        let before = destination.predecessor();
        Ok(Record {
            id: begun.id.clone(),
            target: destination.path(*deadline)?,
            source: std::ffi::OsString::from_vec(mounted.source.clone()),
            asked_source: Some(text::without_password(&plan.source)),
            fstype: mounted.fstype.clone(),
            client: plan.client.clone(),
            image: root_files.name(plan),
            digest: begun.digest,
            mode: plan.mode.to_string(),
            since: before.map_or_else(now, |before| before.since),
            mount: mounted.identity.into(),
            namespace: destination.namespace()?,
            init,
            keeper: keeper.process().filter(|_| mounted.is_fuse),
            host_processes: Record::shares_processes(plan.spec.processes),
            cgroup: (*cgroup).clone(),
            limits: plan.limits_json(),
            keep_dead: Record::keeps_dead(plan.on_exit),
            heal: plan.heals().filter(|_| mounted.is_fuse),
            crashes: before.map(|before| before.crashes.clone()).unwrap_or_default(),
            replaces: before.and_then(Replaces::of),
            first: before.map(|before| before.lineage().to_owned()),
            replaced_by: None,
            covers: None,
            degraded: Vec::new(),
            uses_services: !services.is_empty(),
            services,
            boot: sys::process::boot_id().to_owned(),
            sandbox: *sandbox,
            label: plan.recipe.request.label.clone(),
            made_of: Some(plan.fingerprint()),
            ends_with: plan.ends_with.clone(),
        })
    }
}

/// Dropping it removes the cgroups, once their processes have ended.
#[derive(Debug)]
struct CgroupGuard(Cgroup);

impl CgroupGuard {
    fn keep(mut self) {
        self.0 = Cgroup::default();
    }
}

impl Drop for CgroupGuard {
    fn drop(&mut self) {
        reconcile::remove_cgroup(&self.0);
    }
}
