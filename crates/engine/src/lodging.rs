//! Where the client's files come from, and the nest that it will run in.

use std::path::Path;
use std::time::Instant;

use shorefast_image::Digest;
use shorefast_image::store::{Held, Resolved};
use shorefast_sandbox::launch::Root as Files;
use shorefast_sandbox::{Container, Nest};

use crate::Host;
use crate::error::Error;
use crate::plan::{ClientPlan, Root};

#[derive(Debug)]
pub struct Lodging {
    pub nest: Nest,
    pub house: House,
    /// Nobody removes the image while this is held, or while a record names it.
    pub held: Option<Held>,
}

#[derive(Debug)]
pub enum House {
    Image(Resolved),
    /// With its name.
    Container(Container, String),
}

/// Gets what the plan names: an image, which may have to be fetched, or a container that runs.
pub fn find(plan: &ClientPlan, host: &Host, nest: Nest) -> Result<Lodging, Error> {
    match &plan.root {
        Root::Image(image) => {
            let mut image = host.images.obtain(image, host.network).map_err(Error::Image)?;
            let held = image.held.take();
            Ok(Lodging { nest, house: House::Image(image), held })
        }
        Root::Container(selector) => {
            let deadline = Instant::now() + plan.timeout;
            let found = shorefast_runtimes::find(selector, deadline).map_err(Error::Container)?;
            let container = Container::of(found.pid).map_err(Error::Sandbox)?;
            Ok(Lodging { nest, house: House::Container(container, found.to_string()), held: None })
        }
    }
}

impl House {
    pub fn digest(&self) -> Option<&Digest> {
        match self {
            Self::Image(image) => image.digest.as_ref(),
            Self::Container(..) => None,
        }
    }

    pub fn files(&self) -> Files<'_> {
        match self {
            Self::Image(image) => Files::Image { rootfs: &image.rootfs, etc: image.annex.as_deref() },
            Self::Container(container, _) => Files::Container(container),
        }
    }

    /// The image's, for what runs beside the mount. A container has its own.
    pub fn rootfs(&self) -> Option<&Path> {
        match self {
            Self::Image(image) => Some(&image.rootfs),
            Self::Container(..) => None,
        }
    }

    /// The client has mounted: from here on it uses what its container may use.
    pub fn move_in(&self, first: rustix::process::Pid) -> Result<(), Error> {
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
