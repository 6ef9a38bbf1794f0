//! In: a plan. Out: a mount and its record. Every step that changes the host returns a guard; dropping it undoes the step, so an error
//! anywhere leaves nothing behind. After a kill, the keeper or the next call cleans up.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use shorefast_broker::{Broker, Mounted, SelfMountObserver};
use shorefast_sandbox::launcher::launch::LaunchContext;
use shorefast_sandbox::spec::Shape;
use shorefast_sandbox::{Cgroup, Client, Prepared};
use shorefast_sys as sys;
use sys::bounded_call::Bounded;
use sys::shim::Program;

use crate::attach::{self, Target};
use crate::client_root::{self, ClientRoot, RootFiles};
use crate::error::Error;
use crate::keeper::Keeper;
use crate::kill_point::{self, Point};
use crate::mount_source::MountSource;
use crate::plan::ClientPlan;
use crate::process::Process;
use crate::record::Record;
use crate::records::{Begun, Records, Underway};
use crate::request::Existing;
use crate::serve::{self, ServeContext};
use crate::start::{self, Started};
use crate::{Host, Plan, existing, host_mount, kernel, reconcile, remembered, server, services, source_file, target_lock};

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

fn prepare() -> Result<Prepared, Error> {
    require_root()?;
    // In this process: the client, its keeper and its services inherit it from us.
    sys::inherited::reset();
    shorefast_sandbox::prepare(Shape::USUAL).map_err(Error::Sandbox)
}

fn mount_by_client(plan: &ClientPlan, host: &Host, prepared: Prepared) -> Result<Record, Error> {
    let result = make(plan, host, prepared);
    if !plan.services.is_empty() {
        services::settle(&Records::at(&host.run_dir));
    }
    result
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
    kernel::require_any(&plan.policy.kernel_types)?;
    services::require(&plan.needs)?;
    let ClientRoot { prepared, root_files, held } = client_root::find(plan, host, prepared)?;
    let assigned = prepared.with_root(&plan.spec, root_files.files()).map_err(Error::Sandbox)?.with_source(source);
    kill_point::pass(Point::ImageResolved);
    // The image may have taken minutes to arrive; the caller's timeout is for the mount.
    let deadline = Instant::now() + plan.timeout;

    let begun = records.begin(root_files.digest(), Some(&underway(plan, &root_files)), deadline)?;
    drop(held);
    kill_point::pass(Point::RecordBegun);
    let cgroup = CgroupGuard(Cgroup::create(&begun.id, &plan.limits).map_err(Error::Sandbox)?);
    kill_point::pass(Point::CgroupMade);
    let remembered = remembered::read(plan, host.images.root(), deadline)?;
    let program = Program::default();
    let context = LaunchContext { ids: begun.ids, cgroup: &cgroup.0, log: &begun.log, program: &program, deadline };
    let Started { keeper, client, listener, view, sandbox } = start::client(assigned, plan, &context, &records, &begun, &remembered)?;
    // Cleans up after killed calls. Done now, because the client needs time to start.
    reconcile::abandoned(&records)?;
    if plan.policy.kernel_types.iter().any(|fstype| !fstype.starts_with("fuse")) {
        reconcile::sweep(&records)?;
    }

    let beside = services::plan::make(&plan.services, root_files.rootfs(), &plan.client, begun.digest, host.images.root());
    let mut start_services = services::starter(&records, &beside, deadline);
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
        target: &target,
        begun: &begun,
        client: &client,
        keeper: &keeper,
        cgroup: &cgroup.0,
        sandbox,
        deadline,
    };
    let mut made = None;
    let commit = |mounted: &Mounted| {
        let record = parts.describe(mounted, services::used_by(mounted, &plan.client, &records))?;
        begun.commit(&record)?;
        made = Some(record);
        Ok(())
    };
    serve::until_complete(&client, &mut mount_source, &serving, commit)?;
    let mounted = mount_source.mounted().expect("a complete mount is mounted");
    remembered.keep(client_pid(&client))?;
    kill_point::pass(Point::Served);
    root_files.join_cgroups(client.pid())?;
    if mounted.is_fuse {
        mount_source.hide()?;
    }
    let clear = |dead| reconcile::clear_dead(&records, dead);
    let attached = attach::at(&mounted.mount, mounted.identity, &target, deadline, clear)?;
    kill_point::pass(Point::Attached);
    if !mounted.services.is_empty() {
        services::remember(&records, deadline);
    }
    if mounted.is_fuse {
        keeper.release().map_err(Error::Keeper)?;
        kill_point::pass(Point::KeeperReleased);
        let server = server::of(client_pid(&client)).and_then(server::pid_inside);
        client.keep(server).map_err(|_| serve::ended_early(&serving))?;
        cgroup.keep();
    } else {
        keeper.dismiss();
        kill_point::pass(Point::KeeperReleased);
        drop(client);
        drop(cgroup);
    }
    kill_point::pass(Point::ClientReleased);
    attached.keep();
    mount_source.keep();
    begun.finish();
    kill_point::pass(Point::RecordFinished);
    Ok(made.expect("a complete mount was recorded"))
}

/// For `list`, until there is a record.
fn underway(plan: &ClientPlan, root_files: &RootFiles) -> Underway {
    Underway {
        target: std::path::absolute(&plan.target).unwrap_or_else(|_| plan.target.clone()),
        client: plan.client.clone(),
        image: root_files.name(plan),
        mode: plan.mode.to_string(),
        since: now(),
    }
}

fn client_pid(client: &Client) -> i32 {
    client.pid().as_raw_nonzero().get()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
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

/// What a record is made from.
struct Parts<'a> {
    plan: &'a ClientPlan,
    root_files: &'a RootFiles,
    target: &'a Target,
    begun: &'a Begun<'a>,
    client: &'a Client,
    keeper: &'a Keeper,
    cgroup: &'a Cgroup,
    sandbox: Option<u64>,
    deadline: Instant,
}

impl Parts<'_> {
    fn describe(&self, mounted: &Mounted, services: Vec<String>) -> Result<Record, Error> {
        let Self { plan, root_files, target, begun, client, keeper, cgroup, sandbox, deadline } = self;
        let init = Process::of(client_pid(client)).filter(|_| mounted.is_fuse);
        Ok(Record {
            id: begun.id.clone(),
            target: target.path(*deadline)?,
            source: std::ffi::OsString::from_vec(mounted.source.clone()),
            fstype: mounted.fstype.clone(),
            client: plan.client.clone(),
            image: root_files.name(plan),
            digest: begun.digest,
            mode: plan.mode.to_string(),
            since: now(),
            mount: mounted.identity.into(),
            namespace: target.namespace()?,
            init,
            keeper: keeper.process().filter(|_| mounted.is_fuse),
            host_processes: Record::shares_processes(plan.spec.processes),
            cgroup: (*cgroup).clone(),
            limits: plan.limits_json(),
            keep_dead: Record::keeps_dead(plan.on_exit),
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
