//! Fills the sandbox's empty root: [`ClientFiles`] and the opened root come in, mounts and files in the sandbox's mount
//! namespace result. Runs in the launching process, which enters that namespace for the time, while the sandbox's first
//! process restricts itself. So the contents of files, possibly secrets, never pass through the first process.
//!
//! The image's top-level entries are bound into the root read-only. So an image needs no directories for our purposes,
//! and all of its mounts share it.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{CWD, Mode};
use rustix::mount::{FsPickFlags, MountFlags};
use shorefast_sys as sys;
use sys::namespace::Home;
use sys::shim::Program;
use sys::{Result, call};

use crate::launcher::base_dirs::{self, ETC};
use crate::launcher::etc;
use crate::launcher::files::{self, FilePlace, ReadFile};
use crate::launcher::host_mounts;
use crate::launcher::node::{self, EntryKind};
use crate::launcher::private;
use crate::launcher::root_source::{Contents, Opened};
use crate::launcher::source::Kind;
use crate::spec::{DEFAULT_SCRATCH, Rights, SOURCE, Spec};

/// What is specific to this client.
#[derive(Debug)]
pub struct ClientFiles<'a> {
    pub spec: &'a Spec,
    /// The client's uid on the host.
    pub owner: u32,
    /// A uid that no process of a client in a container has.
    pub stranger: u32,
    pub files: &'a [ReadFile],
    /// No tree yet if it is ID-mapped through the client's user namespace: it is attached once that has its mapping.
    pub source: Option<(Kind, Option<&'a OwnedFd>)>,
    /// The mounts for `spec.shown`, in the same order.
    pub shown: &'a [OwnedFd],
    /// The program that replaces those in `spec.stand_ins`.
    pub program: &'a Program,
    /// For accesses to a container's filesystems.
    pub deadline: Instant,
}

/// `namespace`: the mount namespace with the empty root.
pub fn fill(home: &Home, namespace: &OwnedFd, opened: &Opened<'_>, client_files: &ClientFiles<'_>) -> Result<()> {
    let _visit = home.visit(namespace.as_fd())?;
    // Ignore the caller's umask.
    let callers = rustix::process::umask(Mode::empty());
    let filled = fill_here(opened, client_files);
    rustix::process::umask(callers);
    filled
}

fn fill_here(opened: &Opened<'_>, client_files: &ClientFiles<'_>) -> Result<()> {
    let ClientFiles { spec, owner, stranger, files, source, shown, program, deadline } = *client_files;
    if spec.scratch_bytes != DEFAULT_SCRATCH {
        resize(spec.scratch_bytes)?;
    }
    base_dirs::make(opened.base_dirs(), owner, stranger)?;
    place_all(opened, spec.shape().rights)?;
    if let Some((kind, tree)) = source {
        let read_only =
            if spec.source.as_ref().is_some_and(|source| source.is_read_only) { MountFlags::RDONLY } else { MountFlags::empty() };
        place_source(kind, tree, spec.shape().rights, read_only)?;
    }
    match &opened.contents {
        Contents::Image { root, etc } => {
            let (ours, in_etc): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.place == FilePlace::Ours);
            for file in ours {
                let place = node::relative(node::path(&file.inside));
                node::make_parents(place)?;
                files::write_out(file, place, owner)?;
            }
            etc::lay(root, etc.as_ref(), &in_etc, owner)?;
        }
        Contents::Container(_) => private::lay(files, owner, deadline)?,
    }
    // Last: the client's private files must not be written into directories of the host.
    host_mounts::place(spec, shown, program)
}

fn resize(bytes: u64) -> Result<()> {
    let context = call(|| "fspick(\"/\")".into(), rustix::mount::fspick(CWD, "/", FsPickFlags::FSPICK_CLOEXEC))?;
    let size = bytes.to_string();
    let set = rustix::mount::fsconfig_set_string(context.as_fd(), "size", size.as_str());
    call(|| format!("fsconfig(tmpfs, size={size})"), set)?;
    call(|| "fsconfig(tmpfs, RECONFIGURE)".into(), rustix::mount::fsconfig_reconfigure(context.as_fd()))
}

/// Attaches the top-level entries of the image, or of the container.
fn place_all(opened: &Opened<'_>, rights: Rights) -> Result<()> {
    let mut trees = opened.trees.iter();
    for entry in &opened.entries {
        // /etc is a directory of ours, with links into the image's.
        let is_covered = matches!(opened.contents, Contents::Image { .. }) && entry.name == ETC.as_bytes();
        let name = if is_covered { Path::new(etc::OF_IMAGE) } else { node::path(&entry.name) };
        match &entry.kind {
            EntryKind::Link(target) => {
                node::make_link(name, node::path(target))?;
                continue;
            }
            EntryKind::Directory => node::make_directory(name)?,
            EntryKind::File => node::make_file(name, b"", 0o644)?,
        }
        let tree = trees.next().expect("one for each entry that is mounted");
        sys::mount::attach(tree.as_fd(), CWD, name)?;
        if rights == Rights::All {
            sys::mount::restrict(name, MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV)?;
        }
    }
    Ok(())
}

fn place_source(kind: Kind, tree: Option<&OwnedFd>, rights: Rights, read_only: MountFlags) -> Result<()> {
    let place = Path::new(SOURCE);
    match kind {
        Kind::Directory => node::make_directory(place)?,
        Kind::File => node::make_file(place, b"", 0o644)?,
    }
    let Some(tree) = tree else { return Ok(()) };
    sys::mount::attach(tree.as_fd(), CWD, place)?;
    match rights {
        Rights::None => Ok(()),
        Rights::All => sys::mount::restrict(place, MountFlags::NOSUID | MountFlags::NODEV | read_only),
    }
}
