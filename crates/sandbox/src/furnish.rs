//! What the sandbox is furnished with: an image's files, or those of a container that already runs.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{Mode, OFlags};
use shorefast_sys as sys;
use sys::namespace::Home;

use crate::container::Container;
use crate::error::Error;
use crate::files;
use crate::orders::{Entry, ReadFile};
use crate::root;
use crate::spec::{INIT_INSIDE, Identity, Ids, Rights, Spec};

/// Where the client's files come from.
#[derive(Clone, Copy, Debug)]
pub enum Root<'a> {
    /// The image's root filesystem.
    Image(&'a Path),
    /// The container that the nest was made in.
    Container(&'a Container),
}

/// The same, opened.
#[derive(Debug)]
pub enum Opened<'a> {
    Image(OwnedFd),
    Container(&'a Container),
}

/// What else differs between the two.
#[derive(Debug)]
pub struct Household {
    pub files: Vec<ReadFile>,
    pub owner: u32,
    pub init_id: u32,
    pub users: Option<OwnedFd>,
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What is to stand in the sandbox's root, and with it what it comes from.
pub fn open(root: Root<'_>, rights: Rights) -> Result<(Opened<'_>, Vec<Entry>, Vec<OwnedFd>), Error> {
    match root {
        Root::Image(path) => {
            let fail = |source| Error::Root { path: path.to_owned(), source };
            let image = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            let image = sys::call(|| format!("open({path:?})"), image).map_err(fail)?;
            let (entries, trees) = match rights {
                Rights::None => root::image_entries(&image),
                // Restricted once they are attached.
                Rights::All => root::plain_image_entries(&image),
            }
            .map_err(fail)?;
            Ok((Opened::Image(image), entries, trees))
        }
        Root::Container(container) => {
            let home = Home::here().map_err(Error::ContainerFiles)?;
            let _visit = home.visit(container.mounts.as_fd()).map_err(Error::ContainerFiles)?;
            let (entries, trees) = root::container_entries().map_err(Error::ContainerFiles)?;
            Ok((Opened::Container(container), entries, trees))
        }
    }
}

impl Opened<'_> {
    pub fn household(&self, spec: &Spec, ids: Ids, deadline: Instant) -> Result<Household, Error> {
        match self {
            Self::Image(image) => Ok(Household {
                files: files::read(spec, image, ids, deadline)?,
                owner: ids.client(spec.identity),
                init_id: if spec.identity == Identity::UserNamespace { INIT_INSIDE } else { ids.init(spec.identity) },
                users: None,
                environment: Vec::new(),
            }),
            Self::Container(container) => {
                let dup = |users: &OwnedFd| sys::call(|| "dup()".into(), users.try_clone());
                let users = container.users.as_ref().map(dup).transpose().map_err(Error::Start)?;
                Ok(Household {
                    files: files::read_given(spec, deadline)?,
                    owner: container.root,
                    init_id: match (&users, container.has_spare_user) {
                        (None, _) => ids.init(spec.identity),
                        (Some(_), true) => INIT_INSIDE,
                        (Some(_), false) => 0,
                    },
                    users,
                    environment: container.environment.clone(),
                })
            }
        }
    }

    pub fn joins_users(&self) -> bool {
        matches!(self, Self::Container(container) if container.users.is_some())
    }
}
