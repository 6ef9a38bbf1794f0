//! Daemons that mounts need beside them, run from the client's image: rpcbind and rpc.statd for the locks of NFS version 3.
//!
//! A service is a sandbox without a mount. It starts when a client asks for it for the first time, one for all mounts of this
//! host; one that the host itself runs is used instead. Its keeper starts it again should it die, and it ends after the last mount
//! that needs it. What it must remember over restarts is in a directory of its own.
//!
//! ```text
//! RUN/services/ID.json      a running service (`record`)
//! RUN/services.lock         who starts or stops services holds it
//! ROOT/services/CLIENT/NAME what it keeps (`state`)
//! ```

pub mod start;
pub mod state;
pub mod record;
pub mod plan;
pub mod rpc;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use shorefast_sandbox::Cgroup;

use crate::end;
use crate::error::Error;
use crate::record::{self as records, Records};
use crate::services::plan::Planned;
use crate::services::record::Running;

/// The internal commands: one starts a service that is described on stdin, the other stops what nobody needs.
pub const START: &str = "__service";
pub const RELEASE: &str = "__services-unused";

/// After the last mount the kernel says good-bye to a service; it should still be there to hear it.
const LINGER: Duration = Duration::from_secs(1);
/// How long one start may take.
const START_WITHIN: Duration = Duration::from_secs(20);
/// A service that dies more often than so many times in so long a time stays dead until it is asked for again.
const DEATHS: usize = 5;
const DEATHS_WITHIN: Duration = Duration::from_secs(60);

/// For the broker: what is done when a client asks for its services.
pub fn when_asked(records: &Records, services: &[Planned], deadline: Instant) -> impl FnMut() -> Result<(), String> {
    move || ensure(records, services, deadline).map_err(|error| error.to_string())
}

/// Makes all of them answer.
fn ensure(records: &Records, services: &[Planned], deadline: Instant) -> Result<(), Error> {
    let _lock = lock(records, deadline)?;
    for service in services {
        if rpc::answers(service.program) {
            continue;
        }
        for dead in record::all(records).into_iter().filter(|running| running.service.name == service.name) {
            stop(records, &dead);
        }
        start_apart(records, service, deadline)?;
    }
    Ok(())
}

/// A mount that needs them was made: what the kernel has registered by now must survive rpcbind.
pub fn remember(records: &Records) {
    for mut running in record::all(records) {
        let Some(socket) = running.service.socket() else { continue };
        if let Ok(registered) = rpc::registrations(socket)
            && registered != running.registered
        {
            running.registered = registered;
            // If it cannot be kept, only a later death of rpcbind will show it.
            let _ = running.write(records);
        }
    }
}

/// After a mount of a client that has services: should nobody need them now, they end, without anybody waiting for it.
pub fn settle(records: &Records) {
    if record::all(records).is_empty() || is_needed(records) {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut command = Command::new(program);
    command.arg("--run-dir").arg(records.directory()).arg(RELEASE);
    let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}

/// Stops them, if nobody needs them.
pub fn release(records: &Records) {
    if record::all(records).is_empty() {
        return;
    }
    std::thread::sleep(LINGER);
    reconcile(records);
}

/// The same at once, and without what died unseen.
pub fn reconcile(records: &Records) {
    let running = record::all(records);
    if running.is_empty() {
        return;
    }
    let Ok(_lock) = lock(records, Instant::now() + START_WITHIN) else { return };
    let needed = is_needed(records);
    for service in record::all(records).iter().rev().filter(|service| !needed || !service.process.is_alive()) {
        stop(records, service);
    }
}

/// Whether this id is a service's.
pub fn is_one(records: &Records, id: &str) -> bool {
    records.service(id).exists()
}

/// The last act of a service's keeper: the service has ended. If somebody needs it, it starts again.
pub fn ended(records: &Records, id: &str) -> Result<(), Error> {
    let _lock = lock(records, Instant::now() + START_WITHIN)?;
    let Some(running) = record::get(records, id) else { return Ok(()) };
    stop(records, &running);
    let deaths = running.deaths_with_this(DEATHS_WITHIN);
    if !is_needed(records) || deaths.len() > DEATHS {
        return Ok(());
    }
    let again = Running { deaths, ..start::run(records, &running.service, Instant::now() + START_WITHIN)? };
    let _ = again.write(records);
    if let Some(socket) = again.service.socket() {
        for line in running.registered.iter().filter(|line| line.program != rpc::RPCBIND) {
            let _ = rpc::register(socket, line);
        }
    }
    Ok(())
}

/// Somebody who is making a mount may be about to need them.
fn is_needed(records: &Records) -> bool {
    let by_mount = records.all().is_ok_and(|all| all.iter().any(|record| record.uses_services));
    by_mount || records.is_anything_being_made().unwrap_or(true)
}

/// Ends and removes all that belongs to a service. Its record goes first: its keeper must not start it again.
fn stop(records: &Records, running: &Running) {
    let _ = fs::remove_file(records.service(&running.id));
    if let Some(ids) = records::ids_of(&running.id) {
        end::sandbox(ids, running.process.started);
    }
    for door in &running.service.doors {
        if let shorefast_broker::Door::Socket { outside, .. } = door {
            state::remove_stale_socket(outside);
        }
    }
    // Somebody else's rpcbind would go on sending others to it.
    for socket in &running.service.sockets {
        let _ = rpc::unregister(socket, running.service.program);
    }
    Cgroup::find(&running.id).remove();
    records.remove(&running.id);
}

/// In a process of its own: a sandbox is forked by a process that has one thread and nothing else to do.
fn start_apart(records: &Records, service: &Planned, deadline: Instant) -> Result<(), Error> {
    let fail = |problem: String| Error::Service { name: service.name.clone(), problem };
    let program = std::env::current_exe().map_err(|error| fail(error.to_string()))?;
    let description = tempfile(service).map_err(|error| fail(error.to_string()))?;
    let mut command = Command::new(program);
    command.arg("--run-dir").arg(records.directory()).arg(START).stdin(description).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| fail(error.to_string()))?;
    let deadline = deadline.min(Instant::now() + START_WITHIN + LINGER);
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(_)) => {
                let mut said = String::new();
                if let Some(mut output) = child.stderr.take() {
                    let _ = std::io::Read::read_to_string(&mut output, &mut said);
                }
                return Err(fail(said.trim().to_owned()));
            }
            Err(error) => return Err(fail(error.to_string())),
            Ok(None) if Instant::now() >= deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(fail("it did not start in time".to_owned()));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// The body of [`START`].
pub fn start_from(records: &Records, description: impl std::io::Read) -> Result<(), String> {
    let service: Planned = serde_json::from_reader(description).map_err(|error| error.to_string())?;
    let running = start::run(records, &service, Instant::now() + START_WITHIN).map_err(|error| match error {
        Error::Service { problem, .. } => problem,
        other => explain(&other),
    })?;
    running.write(records).map_err(|error| error.to_string())
}

fn explain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn tempfile(service: &Planned) -> std::io::Result<File> {
    let memory = rustix::fs::memfd_create("shorefast-service", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(memory);
    serde_json::to_writer(&file, service)?;
    std::io::Seek::rewind(&mut file)?;
    Ok(file)
}

/// Dropped: free.
struct Lock(#[expect(dead_code, reason = "closing it is what frees the lock")] File);

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
