//! What the client finds inside besides its image and its files: things of the host, and stand-ins for programs.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use shorefast_sys as sys;
use sys::{Result, call};

use crate::node;
use crate::orders::{Descriptors, Orders, PlaceKind, ShownPlace};

/// What stands in the place of a program by which a client asks for something.
const ASK: &str = "shorefast/ask";

pub fn place(orders: &Orders, descriptors: &Descriptors) -> Result<()> {
    orders.shown.iter().zip(&descriptors.shown).try_for_each(|(place, tree)| show(place, tree))?;
    orders.stand_ins.iter().try_for_each(|program| stand_in(node::relative(node::path(program)), &descriptors.program))
}

fn show(place: &ShownPlace, tree: &OwnedFd) -> Result<()> {
    let inside = node::relative(node::path(&place.inside));
    if let Some(parent) = inside.parent().filter(|parent| !parent.is_dir()) {
        call(|| format!("mkdir({parent:?})"), std::fs::create_dir_all(parent))?;
    }
    match place.kind {
        PlaceKind::Directory => node::make_directory(inside)?,
        PlaceKind::File => node::make_file(inside, b"", 0o600)?,
    }
    sys::mount::attach(tree.as_fd(), CWD, inside)
}

/// Our own program in the place of one of the image; an image that lacks it does without.
fn stand_in(place: &Path, program: &OwnedFd) -> Result<()> {
    if !std::fs::symlink_metadata(place).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(());
    }
    let mut bytes = Vec::new();
    let mut source = call(|| "dup(program)".into(), program.try_clone()).map(File::from)?;
    call(|| "read(program)".into(), source.rewind().and_then(|()| source.read_to_end(&mut bytes)))?;
    node::make_file(Path::new(ASK), &bytes, 0o755)?;
    let copy = sys::mount::detached_copy(CWD, Path::new(ASK))?;
    sys::mount::attach(copy.as_fd(), CWD, place)
}
