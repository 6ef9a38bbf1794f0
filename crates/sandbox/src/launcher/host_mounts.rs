//! Parts of the host that the client sees besides its image and its files, and programs of ours that replace programs
//! of the image. In: [`Shown`] entries and paths. Out: detached mounts ([`tree`]), then attached ones ([`place`]).
//! [`place`] runs inside the sandbox's mount namespace.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::MountAttrFlags;
use shorefast_sys as sys;
use sys::call;
use sys::mount::Attributes;
use sys::shim::Program;

use crate::error::Error;
use crate::launcher::node;
use crate::spec::{Shown, Spec, Thing};

/// The program that replaces those by which a client requests services.
const ASK: &str = "shorefast/ask";

/// `shown`: the mounts for `spec.shown`, in the same order.
pub fn place(spec: &Spec, shown: &[OwnedFd], program: &Program) -> sys::Result<()> {
    spec.shown.iter().zip(shown).try_for_each(|(shown, tree)| show(shown, tree))?;
    spec.stand_ins.iter().try_for_each(|place| stand_in(node::relative(place), program))
}

fn show(shown: &Shown, tree: &OwnedFd) -> sys::Result<()> {
    let inside = node::relative(&shown.inside);
    node::make_parents(inside)?;
    match shown.what {
        Thing::Directory(_) | Thing::RpcPipefs => node::make_directory(inside)?,
        Thing::Socket(_) => node::make_file(inside, b"", 0o600)?,
    }
    sys::mount::attach(tree.as_fd(), CWD, inside)
}

/// Mounts our program over one of the image. If the image lacks it, there is nothing to replace.
fn stand_in(place: &Path, program: &Program) -> sys::Result<()> {
    if !std::fs::symlink_metadata(place).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(());
    }
    let mut bytes = Vec::new();
    let mut source = call(|| "dup(program)".into(), program.get()?.try_clone()).map(File::from)?;
    call(|| "read(program)".into(), source.rewind().and_then(|()| source.read_to_end(&mut bytes)))?;
    node::make_file(Path::new(ASK), &bytes, 0o755)?;
    let copy = sys::mount::detached_copy(CWD, Path::new(ASK))?;
    sys::mount::attach(copy.as_fd(), CWD, place)
}

/// Opens something of the host as a detached mount.
pub fn tree(shown: &Shown) -> Result<OwnedFd, Error> {
    let set = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let path = match &shown.what {
        Thing::Directory(path) | Thing::Socket(path) => path,
        Thing::RpcPipefs => return sys::mount::new_filesystem("rpc_pipefs", &[], set).map_err(Error::RpcPipefs),
    };
    let fail = |source| Error::Source { path: path.clone(), source };
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let place = call(|| format!("open({path:?})"), place).map_err(fail)?;
    let tree = sys::mount::detached_copy(place.as_fd(), Path::new("")).map_err(fail)?;
    sys::mount::set_attributes(tree.as_fd(), Attributes { set: Some(set), private: true, ..Attributes::default() }).map_err(fail)?;
    Ok(tree)
}
