//! Opens files whose filesystem may not respond. Paths in, descriptors out.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage};
use rustix::net::{SendFlags, SocketFlags, SocketType};

use crate::bounded_call::run::{Bounded, run};
use crate::error::{Error, Result};
use crate::statmount;

/// Opens a path that may cross filesystems that do not respond.
pub fn open(path: &Path, flags: OFlags, deadline: Instant) -> Bounded<OwnedFd> {
    open_at_once(path, flags).map_or_else(|| send_out([OpenRequest { path, flags }], deadline).map(|[opened]| opened.into()), Bounded::Done)
}

/// Opens a path below `root`. Symbolic links are followed within; those of /proc, which lead out of it, are refused.
pub fn open_below(root: BorrowedFd<'_>, path: &Path, flags: OFlags, deadline: Instant) -> Bounded<OwnedFd> {
    open_below_with(root, path, flags, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS, deadline)
}

/// The same with other rules for the way.
pub fn open_below_with(root: BorrowedFd<'_>, path: &Path, flags: OFlags, resolve: ResolveFlags, deadline: Instant) -> Bounded<OwnedFd> {
    let text = || format!("open({path:?})");
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (path, (ours, theirs)) = match crate::c_string(path).and_then(|path| Ok((path, crate::call(|| "socketpair()".into(), pair)?))) {
        Ok(prepared) => prepared,
        Err(error) => return Bounded::Failed(error),
    };
    let (root, socket) = (root.as_raw_fd(), theirs.as_raw_fd());
    let ask = move || {
        // SAFETY: the child has this number open in its own table until it ends.
        let root = unsafe { BorrowedFd::borrow_raw(root) };
        // SAFETY: the same.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        let file = rustix::fs::openat2(root, path.as_c_str(), flags | OFlags::CLOEXEC, Mode::empty(), resolve)?;
        pass_on(socket, file.as_fd())
    };
    run(text, &[root, socket], deadline, ask).map(|()| receive(&ours).map_err(|errno| Error::new(text(), errno)).into())
}

/// Opens two paths, with one child if any is needed: they usually wait for the same server.
pub fn open_both(first: OpenRequest<'_>, second: OpenRequest<'_>, deadline: Instant) -> (Bounded<OwnedFd>, Bounded<OwnedFd>) {
    match (open_at_once(first.path, first.flags), open_at_once(second.path, second.flags)) {
        (Some(first), Some(second)) => (Bounded::Done(first), Bounded::Done(second)),
        (Some(first), None) => (Bounded::Done(first), open(second.path, second.flags, deadline)),
        (None, Some(second)) => (open(first.path, first.flags, deadline), Bounded::Done(second)),
        (None, None) => match send_out([first, second], deadline) {
            Bounded::Done([first, second]) => (first.into(), second.into()),
            Bounded::Failed(error) => (Bounded::Failed(error), Bounded::TimedOut),
            Bounded::TimedOut => (Bounded::TimedOut, Bounded::TimedOut),
        },
    }
}

/// Opens several paths with one child. A path that cannot be opened has its own error.
pub fn open_several<const N: usize>(requests: [OpenRequest<'_>; N], deadline: Instant) -> Bounded<[Result<OwnedFd>; N]> {
    send_out(requests, deadline)
}

/// What to open, and how.
#[derive(Clone, Copy, Debug)]
pub struct OpenRequest<'a> {
    pub path: &'a Path,
    pub flags: OFlags,
}

fn send_out<const N: usize>(wishes: [OpenRequest<'_>; N], deadline: Instant) -> Bounded<[Result<OwnedFd>; N]> {
    let prepare = || {
        let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let paths = wishes.iter().map(|wish| Ok((crate::c_string(wish.path)?, wish.flags))).collect::<Result<Vec<_>>>()?;
        Ok((paths, crate::call(|| "socketpair()".into(), pair)?))
    };
    let (paths, (ours, theirs)) = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => return Bounded::Failed(error),
    };
    let socket = theirs.as_raw_fd();
    let ask = move || {
        // SAFETY: the child has this number open in its own table until it ends.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        paths.iter().try_for_each(|(path, flags)| match rustix::fs::open(path.as_c_str(), *flags | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => pass_on(socket, file.as_fd()),
            Err(errno) => rustix::net::send(socket, &errno.raw_os_error().to_ne_bytes(), SendFlags::NOSIGNAL).map(drop),
        })
    };
    let text = |wish: &OpenRequest<'_>| format!("open({:?})", wish.path);
    let sent = run(|| text(&wishes[0]), &[socket], deadline, ask);
    sent.map(|()| Bounded::Done(wishes.map(|wish| receive(&ours).map_err(|errno| Error::new(text(&wish), errno)))))
}

/// Opens a path with an O_PATH open that only uses the kernel's caches and ends on a local filesystem, so that no child
/// process is needed. `None`: that is not possible, or Linux is older than 5.12.
///
/// During the path walk no filesystem is contacted: with RESOLVE_CACHED, one that would have to ask its server fails
/// instead. At the end, if that is the root of a mount, three filesystems are called once more: overlayfs; NFS, which
/// answers from its cache; and 9p, which could ask its server about files that were modified from here.
fn open_at_once(path: &Path, flags: OFlags) -> Option<OwnedFd> {
    let is_for_us = path.is_absolute() && flags.contains(OFlags::PATH);
    let open = |more| {
        let resolve = ResolveFlags::CACHED | ResolveFlags::NO_MAGICLINKS | more;
        rustix::fs::openat2(rustix::fs::CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
    };
    let elsewhere = || open(ResolveFlags::empty()).filter(|opened| is_local(opened.as_fd()));
    // Nearly every path is on the filesystem of `/`.
    is_for_us.then(|| open(ResolveFlags::NO_XDEV).or_else(elsewhere))?
}

/// Whether the filesystem depends on this machine only. The kernel answers this; the filesystem is not called.
fn is_local(opened: BorrowedFd<'_>) -> bool {
    let on = statmount::id_of(opened).and_then(|mount| statmount::superblock(mount).ok());
    on.is_some_and(|on| statmount::is_local(on.major, on.magic))
}

pub(crate) fn pass_on(socket: BorrowedFd<'_>, file: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let files = [file];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    rustix::net::sendmsg(socket, &[IoSlice::new(b"f")], &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// The received descriptor, or the errno that was sent instead.
pub(crate) fn receive(socket: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let mut errno = [0u8; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::net::recvmsg(socket, &mut [std::io::IoSliceMut::new(&mut errno)], &mut control, flags)?;
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    match (file, received.bytes) {
        (Some(file), _) => Ok(file),
        (None, 4) => Err(Errno::from_raw_os_error(i32::from_ne_bytes(errno))),
        (None, _) => Err(Errno::PROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded_call::filesystem::filesystem_of;
    use std::time::Duration;

    /// Longer than any test takes, however busy the machine is.
    fn in_time() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn an_error_arrives() {
        let missing = open(Path::new("/nonexistent/file"), OFlags::PATH, in_time());
        assert!(matches!(&missing, Bounded::Failed(error) if error.errno() == Errno::NOENT), "{missing:?}");
    }

    #[test]
    fn two_are_opened_and_each_has_its_own_answer() {
        let wish = |path| OpenRequest { path: Path::new(path), flags: OFlags::PATH | OFlags::DIRECTORY };
        // Not on a filesystem that is known to be local, so a child is needed.
        let rows = [
            ("/dev", "/proc", None, None),
            ("/dev/nosuch", "/proc", Some(Errno::NOENT), None),
            ("/proc", "/proc/version", None, Some(Errno::NOTDIR)),
            ("/", "/proc", None, None),
        ];
        for (first, second, ..) in rows {
            assert!(open_at_once(Path::new(second), OFlags::PATH).is_none(), "{first}, {second}");
        }
        for (first, second, why_not_first, why_not_second) in rows {
            let (one, two) = open_both(wish(first), wish(second), in_time());
            for (call, expected) in [(one, why_not_first), (two, why_not_second)] {
                assert_eq!(call.or_timed_out(String::new).err().map(|error| error.errno()), expected, "{first}, {second}");
            }
        }
    }

    #[test]
    fn what_is_below_a_directory_stays_below_it() {
        let proc = std::fs::File::open("/proc").unwrap();
        assert!(matches!(filesystem_of(proc.as_fd(), in_time()), Bounded::Done(0x9fa0)));
        let open = |path: &str| open_below(proc.as_fd(), Path::new(path), OFlags::PATH, in_time()).or_timed_out(String::new);
        // Absolute, and above it: its own.
        for path in ["version", "/version", "../version", "self/status"] {
            let file = open(path).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(matches!(filesystem_of(file.as_fd(), in_time()), Bounded::Done(0x9fa0)), "{path}");
        }
        let why_not = |path| open(path).unwrap_err().errno();
        assert_eq!((why_not("self/root/etc"), why_not("nosuch")), (Errno::LOOP, Errno::NOENT));
    }

    #[test]
    fn nobody_is_sent_to_a_filesystem_in_memory() {
        let dev = rustix::fs::open("/dev", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let can_tell = statmount::id_of(dev.as_fd()).is_some();
        assert_eq!(open_at_once(Path::new("/dev"), OFlags::PATH).is_some(), can_tell);
        assert_eq!(can_tell.then(|| crate::mount::identify(dev.as_fd()).unwrap().id), statmount::id_of(dev.as_fd()));
    }
}
