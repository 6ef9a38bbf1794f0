//! In: a planned service. Out: a running one that answers. Runs in a separate process.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use shorefast_broker::{Grant, ServiceBroker};
use shorefast_sandbox::launcher::launch::{LaunchContext, Launched, Root};
use shorefast_sandbox::spec::Shape;
use shorefast_sandbox::{Cgroup, Client};
use shorefast_sys as sys;

use crate::error::Error;
use crate::keeper::{self, Holdings};
use crate::process::Process;
use crate::records::{Begun, Records};
use crate::services::plan::{Boot, Planned};
use crate::services::record::{self, Running};
use crate::services::{pipes, profile, rpc, state};

/// Starts it and writes its record: from then on its keeper supervises it. `deaths`: when it died before.
pub fn run(records: &Records, service: &Planned, deaths: Vec<u64>, deadline: Instant) -> Result<Running, Error> {
    let begun = records.begin(service.digest.as_ref(), None, deadline)?;
    let boot = prepare(records, service, &begun)?;
    let program = sys::shim::Program::default();
    let cgroup = Cgroup::default();
    let around = LaunchContext { ids: begun.ids, cgroup: &cgroup, log: &begun.log, program: &program, recipe: None, deadline };
    let profiles = service.profiles.iter().map(|path| profile::read(path)).collect::<Result<_, _>>();
    let spec = service.spec(boot, profiles.map_err(|error| failed(service, error.to_string()))?);
    let prepared = shorefast_sandbox::prepare(Shape::USUAL).map_err(Error::Sandbox)?;
    let assigned = prepared.with_root(&spec, Root::Image { rootfs: &service.rootfs, etc: None }).map_err(Error::Sandbox)?;
    let launching = assigned.launch(&spec, &around).map_err(Error::Sandbox)?;
    let Launched { client, listener, .. } = launching.complete().map_err(Error::Sandbox)?;
    let listener = listener.ok_or_else(|| failed(service, "nobody hears it".to_owned()))?;
    let holdings = Holdings { sandbox: client.pidfd(), log: begun.log.as_fd(), recipe: None };
    let keeper = keeper::start(records.directory(), &begun.id, &holdings, &program).map_err(Error::Keeper)?;
    let user = begun.ids.client(service.identity());
    let mut service_broker = ServiceBroker::new(listener, &service.grants, user);
    until_it_answers(service, &client, &mut service_broker, &records.log(&begun.id), deadline)?;
    let service_broker = if service.has_pipes() {
        Some(pipes::keep_open(service_broker.into_listener(), user).map_err(|error| failed(service, error.to_string()))?)
    } else {
        None
    };

    let process = Process::of_ours(client.pid().as_raw_nonzero().get()).ok_or_else(|| failed(service, "it ended at once".to_owned()))?;
    let running = Running {
        id: begun.id.clone(),
        service: service.clone(),
        process,
        keeper: keeper.process(),
        service_broker,
        since: record::now(),
        deaths,
        registered: Vec::new(),
    };
    running.write(records).map_err(|source| Error::Record { path: records.service(&begun.id), source })?;
    keeper.release(None).map_err(Error::Keeper)?;
    client.keep(None).map_err(|error| failed(service, error.to_string()))?;
    begun.finish();
    Ok(running)
}

/// Prepares what it needs before it runs.
fn prepare(records: &Records, service: &Planned, begun: &Begun<'_>) -> Result<Boot, Error> {
    let owner = begun.ids.client(service.identity());
    let fail = |error: std::io::Error| failed(service, error.to_string());
    for grant in &service.grants {
        if let Grant::Socket { outside, .. } = grant {
            state::remove_stale_socket(outside);
        }
    }
    let ours = record::all(records);
    for socket in &service.sockets {
        // Our rpcbind's socket is for root and for the sandboxes that we give it to; the host's is open to all.
        if ours.iter().any(|running| running.service.socket() == Some(socket.as_path())) {
            std::os::unix::fs::lchown(socket, Some(owner), None).map_err(fail)?;
        }
    }
    for (socket, program) in service.registers() {
        // A stale registration of its predecessor would make its own fail.
        let _ = rpc::unregister(socket, program);
    }
    let Some(kept) = &service.state else { return Ok(Boot::New) };
    state::prepare(kept, owner).and_then(|()| state::boot(kept)).map_err(fail)
}

/// Answers its bind(2) calls until it answers as a service.
fn until_it_answers(
    service: &Planned,
    client: &Client,
    service_broker: &mut ServiceBroker<'_>,
    log: &Path,
    deadline: Instant,
) -> Result<(), Error> {
    let pause = rustix::time::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    loop {
        let (calls, ended) = {
            let (listener, control) = (service_broker.listener(), client.control());
            let mut fds = [PollFd::new(&listener, PollFlags::IN), PollFd::new(&control, PollFlags::IN)];
            let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&pause)));
            ready.map_err(|errno| Error::Wait(sys::Error::new("poll()", errno)))?;
            (fds[0].revents().contains(PollFlags::IN), !fds[1].revents().is_empty())
        };
        if calls {
            service_broker.answer_next().map_err(Error::Broker)?;
        } else if ended || Instant::now() >= deadline {
            return Err(failed(service, explain(service_broker, log, if ended { "it ended" } else { "it does not answer" })));
        } else if let Some(port) = service_broker.taken {
            return Err(failed(service, format!("port {port} is held by another program that does not speak this protocol")));
        } else if service.answers() {
            return Ok(());
        }
    }
}

fn explain(service_broker: &ServiceBroker<'_>, log: &Path, what: &str) -> String {
    let log = sys::ring::Log::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&log.kept).into_owned();
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).map(|line| format!("; it said: {line}")).unwrap_or_default();
    let refused: String = service_broker.refused.iter().map(|refusal| format!("; {refusal}")).collect();
    format!("{what}{last}{refused}")
}

fn failed(service: &Planned, problem: String) -> Error {
    Error::Service { name: service.name.clone(), problem }
}
