//! In: the plan. Out: the client's root filesystem, from an image or a running container, and the sandbox the client will run in.

use std::path::Path;
use std::time::Instant;

use shorefast_image::store::{Held, Resolved};
use shorefast_image::{Digest, Keys, Reference};
use shorefast_sandbox::launcher::launch::Root as Files;
use shorefast_sandbox::{Container, Prepared};

use crate::error::{Awaited, Diagnostics, Error};
use crate::plan::{ClientPlan, Root};
use crate::{Host, images};

#[derive(Debug)]
pub struct ClientRoot {
    pub prepared: Prepared,
    pub root_files: RootFiles,
    /// The image is not removed while this is held, or while a record names it.
    pub held: Option<Held>,
}

#[derive(Debug)]
pub enum RootFiles {
    Image(Resolved),
    /// With the container's name.
    Container(Container, String),
}

/// Resolves what the plan names: an image, which may have to be fetched, or a running container.
pub fn find(plan: &ClientPlan, host: &Host, prepared: Prepared) -> Result<ClientRoot, Error> {
    match &plan.root {
        Root::Image(image) => {
            let mut image = match plan.recipe.digest {
                Some(digest) => same(image, digest, host)?,
                None => obtain(image, plan, host)?,
            };
            let held = image.held.take();
            Ok(ClientRoot { prepared, root_files: RootFiles::Image(image), held })
        }
        Root::Container(selector) => {
            let deadline = Instant::now() + plan.timeout;
            let found = shorefast_runtimes::find(selector, deadline).map_err(Error::Container)?;
            let container = Container::of(found.pid).map_err(Error::Sandbox)?;
            Ok(ClientRoot { prepared, root_files: RootFiles::Container(container, found.to_string()), held: None })
        }
    }
}

/// The image that an earlier client ran from, which its record has protected from removal.
fn same(image: &Reference, digest: Digest, host: &Host) -> Result<Resolved, Error> {
    let absent = || shorefast_image::Error::Unknown { name: format!("{image}@{digest}"), near: None };
    host.images.resolve_digest(digest).and_then(|found| found.ok_or_else(absent)).map_err(Error::Image)
}

/// The image that the plan's client would run from now, fetched if necessary. `None`: it has no digest, or runs in a container.
pub fn todays_image(plan: &ClientPlan, host: &Host) -> Result<Option<Digest>, Error> {
    match &plan.root {
        Root::Image(image) => obtain(image, plan, host).map(|image| image.digest),
        Root::Container(_) => Ok(None),
    }
}

/// The plan's image, if the store has it.
pub fn stored(image: &Reference, plan: &ClientPlan, host: &Host) -> Result<Option<Resolved>, Error> {
    host.images.resolve(image, &keys(plan)?).map_err(Error::Image)
}

/// One of which must have signed the image; none: nobody has to.
fn keys(plan: &ClientPlan) -> Result<Vec<Keys>, Error> {
    plan.signed_by.iter().map(|path| images::keys(path)).collect()
}

/// The image's files. Fetching depends on registries and archives; it is bounded by the deadline, if there is one.
fn obtain(image: &Reference, plan: &ClientPlan, host: &Host) -> Result<Resolved, Error> {
    let keys = keys(plan)?;
    if let Some(resolved) = host.images.resolve(image, &keys).map_err(Error::Image)? {
        return Ok(resolved);
    }
    let Some(within) = plan.image_timeout else { return host.images.obtain(image, &keys, host.network).map_err(Error::Image) };
    let (answer, arrives) = std::sync::mpsc::channel();
    let (store, network, image) = (host.images.clone(), host.network, image.clone());
    // When late, the thread is abandoned and ends with this process; the next call resumes from what was fetched until then.
    std::thread::spawn(move || answer.send(store.obtain(&image, &keys, network)));
    match arrives.recv_timeout(within) {
        Ok(resolved) => resolved.map_err(Error::Image),
        Err(_) => Err(Error::Deadline { seconds: within.as_secs(), waiting_for: Awaited::Image, said: Diagnostics::default() }),
    }
}

impl RootFiles {
    pub fn digest(&self) -> Option<&Digest> {
        match self {
            Self::Image(image) => image.digest.as_ref(),
            Self::Container(..) => None,
        }
    }

    pub fn files(&self) -> Files<'_> {
        match self {
            Self::Image(image) => Files::Image { rootfs: &image.rootfs, etc: image.derived.as_deref() },
            Self::Container(container, _) => Files::Container(container),
        }
    }

    /// The image's root filesystem, for services beside the mount. None for a container, which has its own.
    pub fn rootfs(&self) -> Option<&Path> {
        match self {
            Self::Image(image) => Some(&image.rootfs),
            Self::Container(..) => None,
        }
    }

    /// Called once the client has mounted: from then on it is charged to its container's cgroups.
    pub fn join_cgroups(&self, first: rustix::process::Pid) -> Result<(), Error> {
        match self {
            Self::Image(_) => Ok(()),
            Self::Container(container, _) => container.take_in(first).map_err(Error::Sandbox),
        }
    }

    /// For the record.
    pub fn name(&self, plan: &ClientPlan) -> String {
        match self {
            Self::Image(_) => plan.root.to_string(),
            Self::Container(_, name) => name.clone(),
        }
    }
}
