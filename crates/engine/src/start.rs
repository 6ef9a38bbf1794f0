//! In: a prepared sandbox. Out: a running client, with its keeper and the listener for its calls.

use std::os::fd::{AsFd as _, OwnedFd};

use shorefast_broker::View;
use shorefast_sandbox::launcher::launch::{Assigned, LaunchContext, Launched};
use shorefast_sandbox::spec::{Identity, TARGET};
use shorefast_sandbox::{Client, Error as SandboxError, Spec};
use shorefast_sys as sys;

use crate::error::Error;
use crate::keeper::{self, Holdings, Keeper};
use crate::kill_point::{self, Point};
use crate::plan::ClientPlan;
use crate::recipe::Recipe;
use crate::records::{Begun, Records};
use crate::remembered::Remembered;

/// Dropping it ends all of it.
#[derive(Debug)]
pub struct Started {
    pub keeper: Keeper,
    pub client: Client,
    /// Receives the client's calls. `None`: it mounts by itself.
    pub listener: Option<OwnedFd>,
    /// The client's mount namespace.
    pub view: View,
    /// The sandbox's mount namespace, by inode.
    pub sandbox: Option<u64>,
}

/// Starts the client as planned, or without a user namespace where this host has none or the source's filesystem does not support
/// id-mapped mounts.
pub fn client(
    assigned: Assigned<'_>,
    plan: &ClientPlan,
    recipe: Recipe,
    around: &LaunchContext<'_>,
    records: &Records,
    begun: &Begun<'_>,
    remembered: &Remembered,
) -> Result<Started, Error> {
    let files = assigned.files();
    let mut spec = shorefast_sandbox::launcher::files::with_callers_files(&plan.spec, around.deadline).map_err(Error::Sandbox)?;
    let recipe = recipe.with_files(&spec).seal().map_err(Error::Keeper)?;
    let around = &LaunchContext { recipe: Some(&recipe), ..*around };
    // Not in the recipe: a client that is started again gets what is known then.
    spec.files.extend(remembered.files());
    match start(assigned, &spec, &recipe, around, records, begun) {
        Err(Error::Sandbox(error)) if spec.identity == Identity::UserNamespace && needs_dedicated_user(&error) => {
            let without = Spec { identity: Identity::DedicatedUser, ..spec.clone() };
            let prepared = shorefast_sandbox::prepare(without.shape()).map_err(Error::Sandbox)?;
            let assigned = prepared.with_root(&without, files).map_err(Error::Sandbox)?;
            start(assigned, &without, &recipe, around, records, begun)
        }
        result => result,
    }
}

fn needs_dedicated_user(error: &SandboxError) -> bool {
    // Whichever step meets a process that could not enter a user namespace first reports it.
    matches!(error, SandboxError::OwnersNotMapped { .. }) || !sys::sysctl::has_user_namespaces()
}

fn start(
    assigned: Assigned<'_>,
    spec: &Spec,
    recipe: &OwnedFd,
    around: &LaunchContext<'_>,
    records: &Records,
    begun: &Begun<'_>,
) -> Result<Started, Error> {
    let launching = assigned.launch(spec, around).map_err(Error::Sandbox)?;
    kill_point::pass(Point::SandboxStands);
    let look = |namespace: &OwnedFd| {
        let namespace = sys::call(|| "dup(namespace)".into(), namespace.try_clone()).map_err(Error::Keeper)?;
        View::new(namespace, TARGET.into()).map_err(Error::Broker)
    };
    // Before the launch is complete for a client that mounts by itself, which could win the race, and for one in a container, which may be
    // the user that owns its root; for any other, this happens while it starts.
    let seen = match spec.identity {
        Identity::HostRoot | Identity::ContainerRoot => Some(look(launching.namespace())?),
        Identity::UserNamespace | Identity::DedicatedUser => None,
    };
    let Launched { client, namespace, listener } = launching.complete().map_err(Error::Sandbox)?;
    kill_point::pass(Point::ClientLaunched);
    let view = seen.map_or_else(|| look(&namespace), Ok)?;
    let holdings = Holdings { sandbox: client.pidfd(), log: begun.log.as_fd(), recipe: Some(recipe.as_fd()) };
    let keeper = keeper::start(records.directory(), &begun.id, &holdings, around.program).map_err(Error::Keeper)?;
    kill_point::pass(Point::KeeperStarted);
    let sandbox = rustix::fs::fstat(&namespace).ok().map(|namespace| namespace.st_ino);
    Ok(Started { keeper, client, listener, view, sandbox })
}
