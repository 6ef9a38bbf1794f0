//! Files for a client in a container that is already running. In: the files' contents. Out: mounts over the container's
//! files. Runs inside the sandbox's mount namespace.
//!
//! The container's filesystem is shared with it, live, so nothing is written there: it would stay, visible to all of
//! its processes. Instead a file is created in the sandbox's tmpfs and mounted over the container's, in the client's
//! mount namespace only.
//!
//! The container is hostile: it may change its files at any time, and redirect paths with symbolic links. To avoid a
//! TOCTOU race, every path is resolved once, below the client's root, and held as a descriptor.

use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Statx, StatxFlags, Uid};
use rustix::io::Errno;
use shorefast_sys as sys;
use sys::bounded_call;
use sys::{Result, call};

use crate::launcher::files::{self, FilePlace, ReadFile};
use crate::launcher::node;

/// Files and directories that are mounted over the container's.
const OURS: &str = "shorefast/private";
/// The container's covered directories, as targets of links.
const COVERED: &str = "shorefast/container";

/// Creates the files in the current root, which is the working directory, in the calling thread's mount namespace.
pub fn lay(files: &[ReadFile], owner: u32, deadline: Instant) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    [OURS, COVERED].iter().try_for_each(node::make_directory)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = call(|| "open(\".\", O_PATH)".into(), rustix::fs::open(".", flags, Mode::empty()))?;
    let place = Place { root, owner, deadline };
    files.iter().enumerate().try_for_each(|(number, file)| place.lay(&number.to_string(), file))
}

/// Where the files go. Every access to the container's filesystems is a bounded call, because any process may serve
/// them.
struct Place {
    root: OwnedFd,
    /// The client's uid.
    owner: u32,
    deadline: Instant,
}

impl Place {
    fn lay(&self, number: &str, file: &ReadFile) -> Result<()> {
        let path = node::relative(node::path(&file.inside));
        match self.resolve(path, OFlags::PATH) {
            Ok(place) => self.cover_file(&place, path, number, file),
            Err(error) if error.errno() == Errno::NOENT => {
                let (directory, rest) = self.existing_part(path)?;
                let is_ours = device(&directory)? == device(&self.root)?;
                let directory = if is_ours { directory } else { self.cover_directory(&directory, number, first_of(rest))? };
                create(directory, rest, file, self.owner)
            }
            Err(error) => Err(in_container(path, &error)),
        }
    }

    /// Symbolic links are followed within the client's root. Those of /proc would lead out of it, and are refused.
    fn resolve(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        bounded_call::open_below(self.root.as_fd(), path, flags, self.deadline).or_timed_out(|| format!("open({path:?})"))
    }

    fn cover(&self, place: &OwnedFd, with: &Path) -> Result<()> {
        let copy = sys::mount::detached_copy(CWD, with)?;
        bounded_call::attach(copy.as_fd(), place.as_fd(), self.deadline).or_timed_out(|| format!("move_mount({with:?})"))
    }

    fn cover_file(&self, place: &OwnedFd, path: &Path, number: &str, file: &ReadFile) -> Result<()> {
        if FileType::from_raw_mode(status(place)?.stx_mode.into()) != FileType::RegularFile {
            return Err(sys::Error::new(format!("{:?} in the container is no file", file_name(path)), Errno::EXIST));
        }
        let ours = Path::new(OURS).join(number);
        files::write_out(file, &ours, self.owner)?;
        self.cover(place, &ours)
    }

    /// The longest prefix of the path that exists as a directory, and the rest.
    fn existing_part<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a Path)> {
        for part in path.ancestors().skip(1) {
            let named = if part.as_os_str().is_empty() { Path::new(".") } else { part };
            match self.resolve(named, OFlags::PATH | OFlags::DIRECTORY) {
                Ok(directory) => return Ok((directory, path.strip_prefix(part).unwrap_or(path))),
                Err(error) if error.errno() == Errno::NOENT => {}
                Err(error) => return Err(in_container(named, &error)),
            }
        }
        Err(sys::Error::new("open(\".\")", Errno::NOENT))
    }

    /// Covers a directory of the container with one of ours that contains a link to each of its entries, except
    /// `without`.
    fn cover_directory(&self, directory: &OwnedFd, number: &str, without: &Path) -> Result<OwnedFd> {
        let (ours, covered) = (Path::new(OURS).join(number), Path::new(COVERED).join(number));
        node::make_directory(&ours)?;
        node::make_directory(&covered)?;
        sys::mount::attach(sys::mount::detached_tree(directory.as_fd(), Path::new(""))?.as_fd(), CWD, &covered)?;
        for entry in bounded_call::list(directory.as_fd(), self.deadline).or_timed_out(|| "open(container)".to_owned())? {
            let name = node::path(&entry.name);
            if name != without {
                // A symbolic link is copied as it is, because it may be relative.
                let target =
                    entry.leads_to.as_deref().map_or_else(|| Path::new("/").join(&covered).join(name), |to| node::path(to).to_owned());
                node::make_link(&ours.join(name), &target)?;
            }
        }
        let status = status(directory)?;
        let (user, group) = (Uid::from_raw(status.stx_uid), Gid::from_raw(status.stx_gid));
        call(|| format!("chown({ours:?})"), rustix::fs::chown(&ours, Some(user), Some(group)))?;
        let mode = Mode::from_raw_mode(u32::from(status.stx_mode) & 0o1777);
        call(|| format!("chmod({ours:?})"), rustix::fs::chmod(&ours, mode))?;
        self.cover(directory, &ours)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        call(|| format!("open({ours:?})"), rustix::fs::open(&ours, flags, Mode::empty()))
    }
}

fn in_container(path: &Path, error: &sys::Error) -> sys::Error {
    sys::Error::new(format!("open({:?}) in the container", file_name(path)), error.errno())
}

/// In a directory that we created, which no other process sees yet.
fn create(directory: OwnedFd, path: &Path, file: &ReadFile, owner: u32) -> Result<()> {
    let text = |verb: &str| format!("{verb}({path:?})");
    let mut directory = directory;
    let Some(name) = path.file_name() else { return Err(sys::Error::new(text("open"), Errno::ISDIR)) };
    for part in path.parent().into_iter().flat_map(Path::components) {
        call(|| text("mkdir"), rustix::fs::mkdirat(&directory, part.as_os_str(), Mode::from_raw_mode(0o755)))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        directory = call(|| text("open"), rustix::fs::openat(&directory, part.as_os_str(), flags, Mode::empty()))?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = call(|| text("open"), rustix::fs::openat(&directory, name, flags, Mode::from_raw_mode(file.mode)))?;
    if file.place != FilePlace::Etc {
        let (user, group) = (Uid::from_raw(owner), Gid::from_raw(owner));
        call(|| text("chown"), rustix::fs::fchown(&made, Some(user), Some(group)))?;
    }
    call(|| text("write"), std::fs::File::from(made).write_all(&file.content))
}

fn status(file: &OwnedFd) -> Result<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    call(|| "statx()".into(), rustix::fs::statx(file, c"", flags, StatxFlags::BASIC_STATS))
}

fn device(file: &OwnedFd) -> Result<(u32, u32)> {
    status(file).map(|status| (status.stx_dev_major, status.stx_dev_minor))
}

fn first_of(path: &Path) -> &Path {
    path.iter().next().map_or(path, Path::new)
}

/// The path as the user knows it.
fn file_name(path: &Path) -> PathBuf {
    Path::new("/").join(path)
}
