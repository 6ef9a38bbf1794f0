//! In: the sandbox's mount namespace. Out: the client's mount attached there until its helper is done, and a detached copy for the host.
//!
//! The namespace belongs to us: the client has no privilege over its mounts, and cannot write to the directory of its target. Nevertheless
//! the target is held by descriptor, and the copy for the host is of the mount that was made, never of what a path leads to by then (no
//! TOCTOU). Paths from the client are only compared with the one target.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::mount::{MountAttrFlags, MountFlags, UnmountFlags};
use shorefast_sys as sys;
use sys::bounded_call::{self, Bounded, Directory};
use sys::mount::{Attributes, Identity};
use sys::mountinfo;
use sys::namespace::Home;

use crate::error::Error;

#[derive(Debug)]
pub struct View {
    home: Home,
    namespace: OwnedFd,
    root: OwnedFd,
    target: OwnedFd,
    /// Its path in the namespace.
    path: PathBuf,
    place: Directory,
}

impl View {
    /// `target`: where the client is told to mount, as an absolute path in `namespace`.
    pub fn new(namespace: OwnedFd, target: PathBuf) -> Result<Self, Error> {
        let home = Home::here().map_err(Error::View)?;
        let visit = home.visit(namespace.as_fd()).map_err(Error::View)?;
        let open = |path: &Path| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            sys::call(|| format!("open({path:?}, O_PATH)"), rustix::fs::open(path, flags, Mode::empty())).map_err(Error::View)
        };
        let root = open(Path::new("/"))?;
        let path = target;
        let target = open(&path)?;
        let place = identify(target.as_fd()).map_err(Error::View)?;
        drop(visit);
        Ok(Self { home, namespace, root, target, path, place })
    }

    /// Whether `path`, passed by thread `tid`, is the target. Call it only before something is mounted there: afterwards a lookup could end
    /// in the client's own filesystem and wait for it.
    ///
    /// The target is in the sandbox's root, which is in memory, and the lookup enters no other mount: a path through the client's source or
    /// its container fails, instead of waiting for its server.
    pub fn is_target(&self, tid: i32, path: &Path, deadline: Instant) -> bool {
        let found = if path.is_absolute() {
            let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
            let opened = rustix::fs::openat2(self.root.as_fd(), path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), within);
            opened.and_then(|opened| bounded_call::identify(opened.as_fd())).ok()
        } else {
            // fusermount and mount.cifs pass "." after a chdir. The working directory can be on any filesystem, so the lookup is bounded.
            match bounded_call::identify_from(tid, path, deadline) {
                Bounded::Done(found) => Some(found),
                Bounded::Failed(_) | Bounded::TimedOut => None,
            }
        };
        found == Some(self.place)
    }

    /// Attaches a detached mount in the client's namespace, and returns a detached copy for the host.
    pub fn show(&self, mount: BorrowedFd<'_>) -> sys::Result<OwnedFd> {
        let _visit = self.home.visit(self.namespace.as_fd())?;
        sys::mount::attach(mount, self.target.as_fd(), Path::new(""))?;
        self.copy_or_hide(mount)
    }

    /// Like [`View::show`], with the classic mount(2): the only call that takes options of any length. `deadline`: for a filesystem that
    /// contacts a server. FUSE does not, and its data names a descriptor of this process.
    pub fn mount_here(
        &self,
        source: &[u8],
        fstype: &str,
        flags: u64,
        data: &[u8],
        deadline: Option<Instant>,
    ) -> sys::Result<Bounded<OwnedFd>> {
        let (source, fstype, data) = (sys::c_string(os(source))?, sys::c_string(fstype)?, sys::c_string(os(data))?);
        let _visit = self.home.visit(self.namespace.as_fd())?;
        // By descriptor, as far as mount(2) allows.
        sys::call(|| "fchdir(target)".into(), rustix::process::fchdir(&self.target))?;
        let target = c".".to_owned();
        let Some(deadline) = deadline else {
            let word = MountFlags::from_bits_retain(flags as u32);
            let result = rustix::mount::mount(source.as_c_str(), target.as_c_str(), fstype.as_c_str(), word, data.as_c_str());
            sys::call(|| format!("mount({source:?}, {fstype:?})"), result)?;
            return Ok(Bounded::Done(self.copy_or_hide(self.top()?.as_fd())?));
        };
        Ok(match bounded_call::mount(source, target, fstype, flags, data, deadline) {
            Bounded::Done(()) => Bounded::Done(self.copy_or_hide(self.top()?.as_fd())?),
            Bounded::Failed(error) => Bounded::Failed(error),
            Bounded::TimedOut => Bounded::TimedOut,
        })
    }

    /// The mount that a client that mounts by itself has put on the target, if any.
    pub fn seen(&self) -> sys::Result<Option<mountinfo::Entry>> {
        let _visit = self.home.visit(self.namespace.as_fd())?;
        let top = identify(self.open_top()?.as_fd())?;
        if top.mount == self.place.mount {
            return Ok(None);
        }
        Ok(mountinfo::read()?.into_iter().find(|entry| entry.id == top.mount))
    }

    /// A detached copy of it for the host.
    pub fn copy_with(&self, flags: MountFlags) -> sys::Result<OwnedFd> {
        let _visit = self.home.visit(self.namespace.as_fd())?;
        sys::mount::restrict(&self.path, flags)?;
        sys::mount::detached_copy(rustix::fs::CWD, &self.path)
    }

    /// Whether a mount is of another filesystem than the sandbox's root.
    pub fn is_new(&self, mount: &Identity) -> bool {
        (mount.major, mount.minor) != self.place.device
    }

    /// Detaches the mount in the client's namespace. It would otherwise keep the filesystem alive after the host's umount.
    pub fn hide(&self) -> sys::Result<()> {
        let _visit = self.home.visit(self.namespace.as_fd())?;
        self.unmount()
    }

    fn open_top(&self) -> sys::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        sys::call(|| format!("open({:?}, O_PATH)", self.path), rustix::fs::open(&self.path, flags, Mode::empty()))
    }

    /// The mount that was just made on the target, and nothing else that is at its path.
    fn top(&self) -> sys::Result<OwnedFd> {
        let top = self.open_top()?;
        let place = identify(top.as_fd())?;
        let is_other = place.mount != self.place.mount && place.device != self.place.device;
        if is_other { Ok(top) } else { Err(sys::Error::new(format!("nothing is mounted at {:?}", self.path), rustix::io::Errno::STALE)) }
    }

    /// `mount`: attached in the namespace that the calling thread is in.
    fn copy_or_hide(&self, mount: BorrowedFd<'_>) -> sys::Result<OwnedFd> {
        let copy = || {
            let copy = sys::mount::detached_copy(mount, Path::new(""))?;
            let set = Some(MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV);
            sys::mount::set_attributes(copy.as_fd(), Attributes { set, ..Attributes::default() })?;
            Ok(copy)
        };
        copy().inspect_err(|_| drop(self.unmount()))
    }

    fn unmount(&self) -> sys::Result<()> {
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        sys::call(|| format!("umount2({:?})", self.path), rustix::mount::unmount(&self.path, flags))
    }
}

fn identify(fd: BorrowedFd<'_>) -> sys::Result<Directory> {
    sys::call(|| "statx(STATX_MNT_ID)".into(), bounded_call::identify(fd))
}

fn os(bytes: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(bytes)
}
