//! In: the services that a mount needs. Out: daemons that run beside mounts, from the client's image: rpcbind and rpc.statd for NFS version
//! 3 locks, rpc.gssd for Kerberos.
//!
//! A service is a sandbox without a mount. It starts when a client first asks for it, one instance for all mounts of this host; if the host
//! itself runs it, that one is used. Its keeper restarts it when it dies, and it is stopped after the last mount that needs it. State that
//! it must keep across restarts has a directory per service.
//!
//! ```text
//! RUN/services/ID.json      a running service (`record`)
//! RUN/services.lock         held while services are started or stopped
//! RUN/services.watch.lock   held by the process that waits for the end of the mounts that need them
//! ROOT/services/CLIENT/NAME what it keeps (`state`)
//! ```

pub mod start;
pub mod state;
pub mod record;
pub mod plan;
pub mod profile;
pub mod pipes;
pub mod rpc;

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use shorefast_broker::Mounted;
use shorefast_sandbox::Cgroup;
use shorefast_sandbox::cleaner::members;
use shorefast_sandbox::cleaner::members::Sandbox;

use crate::error::{self, Error};
use crate::plan::Need;
use crate::records::Records;
use crate::services::plan::Planned;
use crate::services::record::Running;

/// The internal commands: start a service described on stdin, stop services that are no longer needed, and wait until that is so.
pub const START: &str = "__service";
pub const RELEASE: &str = "__services-unused";
pub const WATCH: &str = "__services-watch";

/// After the last unmount the kernel still sends a service its final requests; it should be running to answer them.
pub const LINGER: Duration = Duration::from_secs(1);
/// Time limit for one start,
const START_WITHIN: Duration = Duration::from_secs(20);
/// and for a failed one to clean up and report why.
const EXPLAIN_WITHIN: Duration = Duration::from_secs(5);
/// A service that dies more often than this within this time stays down until it is requested again.
const DEATHS: usize = 5;
const DEATHS_WITHIN: Duration = Duration::from_secs(60);

/// Whether this host has the files that a mount's services need, or runs the services itself. Checked before anything is fetched or sent.
pub fn require(needs: &[Need]) -> Result<(), Error> {
    let missing = needs.iter().find_map(|need| fs::metadata(&need.path).err().map(|source| (need, source)));
    match missing {
        Some((need, source)) if !pipes::are_answered() => {
            Err(Error::NoHostFile { service: need.service.clone(), path: need.path.clone(), otherwise: need.otherwise.clone(), source })
        }
        _ => Ok(()),
    }
}

/// For the broker: starts the services with the given names.
pub fn starter(records: &Records, services: &[Planned], deadline: Instant) -> impl FnMut(&[String]) -> Result<(), String> {
    move |names| {
        let named = services.iter().filter(|service| names.contains(&service.name));
        ensure(records, named, deadline).map_err(|error| error.to_string())
    }
}

/// Starts all of them that do not answer.
fn ensure<'a>(records: &Records, services: impl Iterator<Item = &'a Planned>, deadline: Instant) -> Result<(), Error> {
    let _lock = lock(records, deadline)?;
    for service in services {
        let ours: Vec<_> = record::all(records).into_iter().filter(|running| running.service.name == service.name).collect();
        if service.answers() && ours.iter().all(Running::is_whole) {
            continue;
        }
        for dead in ours {
            stop(records, &dead);
        }
        start_apart(records, service, deadline)?;
    }
    // The kernel serves the mounts that need them, so no keeper sees their end.
    start_unheard(records, WATCH);
    Ok(())
}

/// Dropping it lets another process watch. `None`: there is a watcher already.
pub fn only_watcher(records: &Records) -> Result<Option<Lock>, Error> {
    let path = records.directory().join("services.watch.lock");
    let fail = |source: std::io::Error| Error::Record { path: path.clone(), source };
    let file = open_lock(&path).map_err(fail)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Lock(file))),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(fail(errno.into())),
    }
}

/// Waits for any process that is starting or stopping services.
pub fn are_running(records: &Records) -> Result<bool, Error> {
    let _lock = lock(records, Instant::now() + START_WITHIN)?;
    Ok(!record::all(records).is_empty())
}

/// Starts one of our internal commands without waiting for it. Through /proc/self/exe: our file may have been replaced by a newer version,
/// or be gone.
fn start_unheard(records: &Records, command: &str) {
    let mut child = Command::new("/proc/self/exe");
    child.arg0("shorefast").arg("--run-dir").arg(records.directory()).arg(command).current_dir("/");
    // In another process group: it outlives our caller's session.
    let _ = child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn();
}

/// The services that a new mount needs as long as it exists: by its options, and by whether rpc.gssd answers now. While it does, the kernel
/// uses Kerberos to manage the state of every new NFS 4 mount, even with `sec=sys`, and will ask again.
pub fn used_by(mounted: &Mounted, client: &str, records: &Records) -> Vec<String> {
    let answers = |running: &Running| running.service.client == client && running.service.has_pipes();
    let more = record::all(records).into_iter().filter(answers).map(|running| running.service.name);
    let mut names = mounted.services.clone();
    names.extend(more.filter(|name| !mounted.services.contains(name)).collect::<Vec<_>>());
    names
}

/// Called after a mount that needs services: what the kernel has registered by now must survive a restart of rpcbind.
pub fn remember(records: &Records, deadline: Instant) {
    // Without the lock, a concurrent write by its keeper about a restart would be lost. If the lock cannot be taken, only a later death of
    // rpcbind shows it.
    let Ok(_lock) = lock(records, deadline) else { return };
    for mut running in record::all(records) {
        let Some(socket) = running.service.socket() else { continue };
        if let Ok(registered) = rpc::registrations(socket)
            && registered != running.registered
        {
            running.registered = registered;
            // If it cannot be written, only a later death of rpcbind shows it.
            let _ = running.write(records);
        }
    }
}

/// Called after a mount of a client that has services: if they are not needed, they are stopped in the background.
pub fn settle(records: &Records) {
    if record::all(records).iter().all(|running| is_needed(records, running)) {
        return;
    }
    start_unheard(records, RELEASE);
}

/// Stops services that are not needed.
pub fn release(records: &Records) {
    if record::all(records).is_empty() {
        return;
    }
    std::thread::sleep(LINGER);
    reconcile(records);
}

/// The same without delay, and removes records of services that died unobserved.
pub fn reconcile(records: &Records) {
    let running = record::all(records);
    if running.is_empty() {
        return;
    }
    let Ok(_lock) = lock(records, Instant::now() + START_WITHIN) else { return };
    for service in record::all(records).iter().rev().filter(|service| !service.process.is_alive() || !is_needed(records, service)) {
        stop(records, service);
    }
}

/// Whether this id is a service's.
pub fn is_one(records: &Records, id: &str) -> bool {
    records.service(id).exists()
}

/// The last step of a service's keeper: the service has ended. If it is still needed, it is restarted.
pub fn ended(records: &Records, id: &str) -> Result<(), Error> {
    let _lock = lock(records, Instant::now() + START_WITHIN)?;
    let Some(running) = record::get(records, id) else { return Ok(()) };
    stop(records, &running);
    let deaths = running.deaths_with_this(DEATHS_WITHIN);
    if !is_needed(records, &running) || deaths.len() > DEATHS {
        return Ok(());
    }
    let again = start::run(records, &running.service, deaths, Instant::now() + START_WITHIN)?;
    if let Some(socket) = again.service.socket() {
        for line in running.registered.iter().filter(|line| line.program != rpc::RPCBIND) {
            let _ = rpc::register(socket, line);
        }
    }
    Ok(())
}

/// A mount in progress may be about to need it.
fn is_needed(records: &Records, running: &Running) -> bool {
    let by_mount = records.all().is_ok_and(|all| all.iter().any(|record| record.uses(&running.service.name)));
    by_mount || records.is_anything_being_made().unwrap_or(true)
}

/// Ends and removes all that belongs to a service. Its record goes first, so that its keeper does not restart it.
fn stop(records: &Records, running: &Running) {
    let _ = fs::remove_file(records.service(&running.id));
    if let Some(ids) = crate::record::ids_of(&running.id) {
        members::end_all(&Sandbox { ids, since: running.process.started, mounts: None });
    }
    for grant in &running.service.grants {
        if let shorefast_broker::Grant::Socket { outside, .. } = grant {
            state::remove_stale_socket(outside);
        }
    }
    // The host's rpcbind would otherwise keep directing callers to it.
    for (socket, program) in running.service.registers() {
        let _ = rpc::unregister(socket, program);
    }
    Cgroup::find(&running.id).remove();
    records.remove(&running.id);
}

/// In a separate process: a sandbox must be forked by a single-threaded process with nothing else to do.
fn start_apart(records: &Records, service: &Planned, deadline: Instant) -> Result<(), Error> {
    let fail = |problem: String| Error::Service { name: service.name.clone(), problem };
    let description = tempfile(service).map_err(|error| fail(error.to_string()))?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("shorefast")
        .arg("--run-dir")
        .arg(records.directory())
        .arg(START)
        .stdin(description)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| fail(error.to_string()))?;
    let deadline = deadline.min(Instant::now() + START_WITHIN + EXPLAIN_WITHIN);
    match shorefast_sys::deadline::exit_or_kill(&mut child, deadline) {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(_)) => {
            let mut said = String::new();
            if let Some(mut output) = child.stderr.take() {
                let _ = std::io::Read::read_to_string(&mut output, &mut said);
            }
            Err(fail(said.trim().to_owned()))
        }
        Ok(None) => Err(fail("it did not start in time".to_owned())),
        Err(error) => Err(fail(error.to_string())),
    }
}

/// The body of [`START`].
pub fn start_from(records: &Records, description: impl std::io::Read) -> Result<(), String> {
    let service: Planned = serde_json::from_reader(description).map_err(|error| error.to_string())?;
    let started = start::run(records, &service, Vec::new(), Instant::now() + START_WITHIN);
    started.map(drop).map_err(|error| match error {
        Error::Service { problem, .. } => problem,
        other => error::chain(&other, |error| error.to_string()),
    })
}

fn tempfile(service: &Planned) -> std::io::Result<File> {
    let memory = rustix::fs::memfd_create("shorefast-service", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(memory);
    serde_json::to_writer(&file, service)?;
    std::io::Seek::rewind(&mut file)?;
    Ok(file)
}

/// Dropping it releases the lock.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "closing it is what frees the lock")] File);

fn lock(records: &Records, deadline: Instant) -> Result<Lock, Error> {
    let path = records.directory().join("services.lock");
    let fail = |source: std::io::Error| Error::Record { path: path.clone(), source };
    let file = open_lock(&path).map_err(fail)?;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Lock(file)),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Err(errno) => return Err(fail(errno.into())),
        }
    }
}

fn open_lock(path: &Path) -> std::io::Result<File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    File::options().create(true).truncate(false).write(true).open(path)
}
