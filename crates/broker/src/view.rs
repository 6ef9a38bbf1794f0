//! The sandbox's own mount namespace, where the client sees its mount until its helper is done.
//!
//! The namespace belongs to us: the client has no power over its mounts, and the directory of its
//! target is not writable for it. What the client says about paths is still never used as a path
//! of ours: it is only compared with the one target.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use shorefast_sys as sys;
use sys::errand::{self, Errand};
use sys::mountinfo;
use sys::namespace::Home;

use crate::error::Error;

#[derive(Debug)]
pub struct View {
    home: Home,
    namespace: OwnedFd,
    root: OwnedFd,
    target: PathBuf,
    place: Place,
}

/// A directory, known by what cannot be forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    device: (u32, u32),
    inode: u64,
    mount: u64,
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
        let place = Place::of(open(&target)?.as_fd()).map_err(Error::View)?;
        drop(visit);
        Ok(Self { home, namespace, root, target, place })
    }

    /// Whether `path`, said by thread `tid`, is the target. Only before something is mounted
    /// there: afterwards a lookup could end in the client's own filesystem and wait for it.
    pub fn is_target(&self, tid: i32, path: &Path) -> bool {
        let found = if path.is_absolute() {
            open_beneath(self.root.as_fd(), path, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
        } else {
            // "." after a chdir is what fusermount and mount.cifs say.
            let cwd = rustix::fs::open(format!("/proc/{tid}/cwd"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
            cwd.and_then(|cwd| open_beneath(cwd.as_fd(), path, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS))
        };
        found.is_ok_and(|fd| Place::of(fd.as_fd()).is_ok_and(|place| place == self.place))
    }

    /// Shows a detached mount to the client, and gives a detached copy for the host.
    pub fn show(&self, mount: BorrowedFd<'_>) -> sys::Result<OwnedFd> {
        let _visit = self.home.visit(self.namespace.as_fd())?;
        sys::mount::attach(mount, rustix::fs::CWD, &self.target)?;
        self.copy_or_hide()
    }

    /// Like [`View::show`], with the classic mount(2): the only call that takes options of any
    /// length, and options that just the filesystem itself can take apart.
    /// `deadline`: for a filesystem that asks a server. FUSE does not, and its data names a descriptor
    /// of this process.
    pub fn mount_here(
        &self,
        source: &[u8],
        fstype: &str,
        flags: u64,
        data: &[u8],
        deadline: Option<Instant>,
    ) -> sys::Result<Errand<OwnedFd>> {
        let (source, fstype, data) = (sys::c_string(os(source))?, sys::c_string(fstype)?, sys::c_string(os(data))?);
        let _visit = self.home.visit(self.namespace.as_fd())?;
        let target = sys::c_string(&self.target)?;
        let Some(deadline) = deadline else {
            let word = MountFlags::from_bits_retain(flags as u32);
            let result = rustix::mount::mount(source.as_c_str(), target.as_c_str(), fstype.as_c_str(), word, data.as_c_str());
            sys::call(|| format!("mount({source:?}, {fstype:?})"), result)?;
            return Ok(Errand::Done(self.copy_or_hide()?));
        };
        Ok(match errand::mount(source, target, fstype, flags, data, deadline) {
            Errand::Done(()) => Errand::Done(self.copy_or_hide()?),
            Errand::Failed(error) => Errand::Failed(error),
            Errand::Late => Errand::Late,
        })
    }

    /// What a client that mounts by itself has put on the target, if anything.
    pub fn seen(&self) -> sys::Result<Option<mountinfo::Entry>> {
        let _visit = self.home.visit(self.namespace.as_fd())?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let top = rustix::fs::open(&self.target, flags, Mode::empty());
        let top = Place::of(sys::call(|| format!("open({:?}, O_PATH)", self.target), top)?.as_fd())?;
        if top.mount == self.place.mount {
            return Ok(None);
        }
        Ok(mountinfo::read()?.into_iter().find(|entry| entry.id == top.mount))
    }

    /// A detached copy of it for the host.
    pub fn copy_with(&self, flags: MountFlags) -> sys::Result<OwnedFd> {
        let _visit = self.home.visit(self.namespace.as_fd())?;
        sys::mount::restrict(&self.target, flags)?;
        sys::mount::detached_copy(rustix::fs::CWD, &self.target)
    }

    /// Takes the mount out of the client's sight. It would otherwise keep the filesystem alive
    /// after the host's umount.
    pub fn hide(&self) -> sys::Result<()> {
        let _visit = self.home.visit(self.namespace.as_fd())?;
        self.unmount()
    }

    fn copy_or_hide(&self) -> sys::Result<OwnedFd> {
        sys::mount::detached_copy(rustix::fs::CWD, &self.target).inspect_err(|_| drop(self.unmount()))
    }

    fn unmount(&self) -> sys::Result<()> {
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        sys::call(|| format!("umount2({:?})", self.target), rustix::mount::unmount(&self.target, flags))
    }
}

impl Place {
    fn of(fd: BorrowedFd<'_>) -> sys::Result<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let mask = StatxFlags::INO | StatxFlags::MNT_ID;
        let stat = sys::call(|| "statx(STATX_MNT_ID)".into(), rustix::fs::statx(fd, c"", flags, mask))?;
        Ok(Self { device: (stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino, mount: stat.stx_mnt_id })
    }
}

fn open_beneath(root: BorrowedFd<'_>, path: &Path, resolve: ResolveFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn os(bytes: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(bytes)
}
