//! From a nest to a client that runs, with all that watches it.

use std::os::fd::{AsFd as _, OwnedFd};

use shorefast_broker::View;
use shorefast_sandbox::launch::{Furnished, Launched, Surroundings};
use shorefast_sandbox::spec::{Identity, TARGET};
use shorefast_sandbox::{Client, Error as SandboxError, Spec};
use shorefast_sys as sys;

use crate::error::Error;
use crate::keeper::{self, Keeper};
use crate::kill_point::{self, Point};
use crate::plan::ClientPlan;
use crate::records::{Begun, Records};

/// Dropped: ended, all of it.
#[derive(Debug)]
pub struct Started {
    pub keeper: Keeper,
    pub client: Client,
    /// Hears the client's calls. `None`: it mounts by itself.
    pub listener: Option<OwnedFd>,
    /// What the client sees.
    pub view: View,
    /// The sandbox's mount namespace, by inode.
    pub sandbox: Option<u64>,
}

/// Starts the client as planned, or without a user namespace where the source's filesystem cannot
/// show its owners through one.
pub fn client(
    furnished: Furnished<'_>,
    plan: &ClientPlan,
    around: &Surroundings<'_>,
    records: &Records,
    begun: &Begun<'_>,
) -> Result<Started, Error> {
    let files = furnished.files();
    let spec = shorefast_sandbox::files::with_secrets(&plan.spec, around.deadline).map_err(Error::Sandbox)?;
    match start(furnished, &spec, around, records, begun) {
        Err(Error::Sandbox(SandboxError::OwnersNotMapped { .. })) if spec.identity == Identity::UserNamespace => {
            let without = Spec { identity: Identity::DedicatedUser, ..spec.clone() };
            let nest = shorefast_sandbox::prepare(without.shape()).map_err(Error::Sandbox)?;
            let furnished = nest.furnish(&without, files).map_err(Error::Sandbox)?;
            start(furnished, &without, around, records, begun)
        }
        result => result,
    }
}

fn start(furnished: Furnished<'_>, spec: &Spec, around: &Surroundings<'_>, records: &Records, begun: &Begun<'_>) -> Result<Started, Error> {
    let launching = furnished.launch(spec, around).map_err(Error::Sandbox)?;
    kill_point::pass(Point::SandboxStands);
    let look = |namespace: &OwnedFd| {
        let namespace = sys::call(|| "dup(namespace)".into(), namespace.try_clone()).map_err(Error::Keeper)?;
        View::new(namespace, TARGET.into()).map_err(Error::Broker)
    };
    // A client that mounts by itself would be faster than we are, and one in a container may be the user who made its root; for any
    // other there is time while it starts.
    let seen = match spec.identity {
        Identity::HostRoot | Identity::ContainerRoot => Some(look(launching.namespace())?),
        Identity::UserNamespace | Identity::DedicatedUser => None,
    };
    let Launched { client, namespace, listener } = launching.complete().map_err(Error::Sandbox)?;
    kill_point::pass(Point::ClientLaunched);
    let view = seen.map_or_else(|| look(&namespace), Ok)?;
    let keeper = keeper::start(records.directory(), &begun.id, client.pidfd(), begun.log.as_fd(), around.program).map_err(Error::Keeper)?;
    kill_point::pass(Point::KeeperStarted);
    let sandbox = rustix::fs::fstat(&namespace).ok().map(|namespace| namespace.st_ino);
    Ok(Started { keeper, client, listener, view, sandbox })
}
