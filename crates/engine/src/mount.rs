//! One mount, from a plan to a record. Every step that changes the host returns a guard; dropping
//! it undoes the step, so an error anywhere leaves nothing behind. A kill leaves what the keeper
//! or the next call cleans up.

use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use shorefast_broker::{Broker, Mounted, View};
use shorefast_sandbox::launch::Surroundings;
use shorefast_sandbox::spec::{Identity, TARGET};
use shorefast_sandbox::{Cgroup, Client, Error as SandboxError, Spec};
use shorefast_sys as sys;

use crate::attach::{self, Target};
use crate::error::Error;
use crate::keeper::{self, Keeper};
use crate::kill_point::{self, Point};
use crate::record::{Begun, Process, Record, Records};
use crate::serve::{self, Timing};
use crate::{Host, Plan, reconcile};

pub fn mount(plan: &Plan, host: &Host) -> Result<Record, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let timing = Timing { deadline: Instant::now() + plan.timeout, allowed: plan.timeout };
    let target = attach::open(&plan.target)?;
    kill_point::pass(Point::TargetOpened);
    let rootfs = host.images.resolve(&plan.image).map_err(Error::Image)?;
    kill_point::pass(Point::ImageResolved);
    let records = Records::at(&host.run_dir);
    reconcile::abandoned(&records)?;

    let begun = records.begin()?;
    kill_point::pass(Point::RecordBegun);
    let cgroup = CgroupGuard(Cgroup::create(&begun.id, &plan.limits).map_err(Error::Sandbox)?);
    kill_point::pass(Point::CgroupMade);
    let program = sys::shim::program().map_err(Error::Keeper)?;
    let around =
        Surroundings { rootfs: &rootfs, ids: begun.ids, cgroup: &cgroup.0, log: &begun.log, program: &program, deadline: timing.deadline };
    let mut client = launch(&plan.spec, &around)?;
    kill_point::pass(Point::ClientLaunched);
    let early_keeper = if serves_itself(plan) { Some(start_keeper(&records, &begun, client.pidfd(), &program)?) } else { None };
    kill_point::pass(Point::KeeperStarted);

    let (listener, namespace) = client.take_watch().expect("a launched client is watched");
    let view = View::new(namespace, TARGET.into()).map_err(Error::Broker)?;
    let mut broker = Broker::new(listener, &plan.policy, view);
    serve::until_complete(&client, &mut broker, plan.daemon, timing, &records.log(&begun.id))?;
    kill_point::pass(Point::Served);
    let mounted = broker.finish().map_err(Error::Broker)?.expect("a complete mount is mounted");
    kill_point::pass(Point::ViewLeft);

    let keeper = match early_keeper {
        Some(keeper) if mounted.is_fuse => Some(keeper),
        _ if mounted.is_fuse => Some(start_keeper(&records, &begun, client.pidfd(), &program)?),
        _ => keeper::end_of_filesystem(&mounted.mount)
            .map(|watch| start_keeper(&records, &begun, std::os::fd::AsFd::as_fd(&watch), &program))
            .transpose()?,
    };
    let record = describe(plan, &target, &begun, &mounted, &client, keeper.as_ref(), &cgroup.0)?;
    begun.commit(&record)?;
    kill_point::pass(Point::RecordCommitted);
    let attached = attach::at(&mounted.mount, mounted.identity, &target)?;
    kill_point::pass(Point::Attached);
    keeper.map_or(Ok(()), Keeper::release).map_err(Error::Keeper)?;
    kill_point::pass(Point::KeeperReleased);
    if mounted.is_fuse {
        client.keep().map_err(Error::Keeper)?;
        cgroup.keep();
    } else {
        // A kernel filesystem needs its client no more.
        drop(client);
        drop(cgroup);
    }
    kill_point::pass(Point::ClientReleased);
    attached.keep();
    begun.finish();
    kill_point::pass(Point::RecordFinished);
    Ok(record)
}

/// Launches as planned, or without a user namespace where the source's filesystem cannot show its
/// owners through one.
fn launch(spec: &Spec, around: &Surroundings<'_>) -> Result<Client, Error> {
    match shorefast_sandbox::launch(spec, around) {
        Err(SandboxError::OwnersNotMapped { .. }) => {
            let without = Spec { identity: Identity::DedicatedUser, ..spec.clone() };
            shorefast_sandbox::launch(&without, around).map_err(Error::Sandbox)
        }
        result => result.map_err(Error::Sandbox),
    }
}

/// A client that can only make FUSE mounts: its end is the mount's end, known before it mounts.
fn serves_itself(plan: &Plan) -> bool {
    plan.policy.kernel_types.iter().all(|fstype| fstype == "fuse" || fstype.starts_with("fuse."))
}

fn start_keeper(
    records: &Records,
    begun: &Begun<'_>,
    watch: std::os::fd::BorrowedFd<'_>,
    program: &std::os::fd::OwnedFd,
) -> Result<Keeper, Error> {
    keeper::start(records.directory(), &begun.id, watch, program).map_err(Error::Keeper)
}

fn describe(
    plan: &Plan,
    target: &Target,
    begun: &Begun<'_>,
    mounted: &Mounted,
    client: &Client,
    keeper: Option<&Keeper>,
    cgroup: &Cgroup,
) -> Result<Record, Error> {
    let init = Process::of(client.pid().as_raw_nonzero().get()).filter(|_| mounted.is_fuse);
    let namespace = std::fs::metadata("/proc/thread-self/ns/mnt");
    Ok(Record {
        id: begun.id.clone(),
        target: target.path.clone(),
        source: std::ffi::OsString::from_vec(mounted.source.clone()),
        fstype: mounted.fstype.clone(),
        client: plan.client.clone(),
        image: plan.image.to_string(),
        mode: Record::mode(plan.mode),
        since: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        mount: mounted.identity.into(),
        namespace: namespace.map_err(|source| Error::Record { path: "/proc/thread-self/ns/mnt".into(), source })?.ino(),
        init,
        daemon: init.and_then(|init| first_child(init.pid)),
        keeper: keeper.and_then(Keeper::process),
        host_processes: Record::shares_processes(plan.spec.processes),
        cgroup: cgroup.clone(),
        keep_dead: Record::keeps_dead(plan.on_exit),
    })
}

/// The daemon: what the helper left to the sandbox's first process.
fn first_child(init: i32) -> Option<Process> {
    let children = std::fs::read_to_string(format!("/proc/{init}/task/{init}/children")).ok()?;
    children.split_ascii_whitespace().find_map(|pid| Process::of(pid.parse().ok()?))
}

/// Dropped: the groups go, once their processes have.
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
