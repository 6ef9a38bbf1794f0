//! Lists directories of filesystems that may not respond: a directory in, its entries out. A child process does the
//! listing and sends one packet per entry ([`crate::bounded_call`]).

use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags};
use rustix::io::Errno;
use rustix::mount::OpenTreeFlags;
use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage};
use rustix::net::{SendFlags, SocketFlags, SocketType};
use rustix::thread::LinkNameSpaceType;

use crate::bounded_call::run::{Bounded, Descriptors, Pending, finish, send};
use crate::error::Error;

/// A directory entry.
#[derive(Debug)]
pub struct Listed {
    pub name: Vec<u8>,
    pub kind: FileType,
    /// The target, if it is a symbolic link.
    pub leads_to: Option<Vec<u8>>,
    /// A detached copy with everything mounted inside it, if requested and if it is a file or a directory.
    pub tree: Option<OwnedFd>,
}

/// A malicious filesystem may return names without end.
const MOST: usize = 16 * 1024;
/// Buffer for several entries of getdents(2).
const NAMES: usize = 32 * 1024;
const LONGEST_PATH: usize = 4096;

/// Lists a directory.
pub fn list(directory: BorrowedFd<'_>, deadline: Instant) -> Bounded<Vec<Listed>> {
    let directory = directory.as_raw_fd();
    let open = move || {
        // SAFETY: the child has this number open in its own table until it ends.
        let directory = unsafe { BorrowedFd::borrow_raw(directory) };
        rustix::fs::openat(directory, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    };
    list_with("list(directory)", directory, open, |_, _| Ok(None), deadline)
}

/// Lists the root directory of a mount namespace, with copies of all entries but `without`.
pub fn list_root(namespace: BorrowedFd<'_>, without: &'static [&'static CStr], deadline: Instant) -> Bounded<Vec<Listed>> {
    let namespace = namespace.as_raw_fd();
    let open = move || {
        // SAFETY: the child has this number open in its own table until it ends. The child shares its root and working directory with no other process, which setns
        // requires.
        rustix::thread::move_into_link_name_space(unsafe { BorrowedFd::borrow_raw(namespace) }, Some(LinkNameSpaceType::Mount))?;
        rustix::fs::open(c"/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    };
    let copy = move |root: BorrowedFd<'_>, name: &CStr| {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        let is_wanted = !without.contains(&name);
        is_wanted.then(|| rustix::mount::open_tree(root, name, flags | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)).transpose()
    };
    list_with("list(root)", namespace, open, copy, deadline)
}

fn list_with(
    text: &'static str,
    kept: i32,
    open: impl FnOnce() -> rustix::io::Result<OwnedFd>,
    copy: impl Fn(BorrowedFd<'_>, &CStr) -> rustix::io::Result<Option<OwnedFd>>,
    deadline: Instant,
) -> Bounded<Vec<Listed>> {
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = match crate::call(|| "socketpair()".into(), pair) {
        Ok(pair) => pair,
        Err(error) => return Bounded::Failed(error),
    };
    let socket = theirs.as_raw_fd();
    // All memory is allocated before, because the child must not allocate.
    let (mut names, mut target) = (Vec::<u8>::with_capacity(NAMES), Vec::<u8>::with_capacity(LONGEST_PATH));
    let ask = move || {
        // SAFETY: the child has this number open in its own table until it ends.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        let directory = open()?;
        let mut entries = RawDir::new(&directory, names.spare_capacity_mut());
        let mut count = 0;
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            count += 1;
            if count > MOST {
                return Err(Errno::TOOBIG);
            }
            let kind = match entry.file_type() {
                FileType::Unknown => kind_of(directory.as_fd(), name)?,
                known => known,
            };
            let none: &[u8] = &[];
            let (leads_to, tree) = match kind {
                FileType::Symlink => (&*rustix::fs::readlinkat_raw(&directory, name, target.spare_capacity_mut())?.0, None),
                FileType::Directory | FileType::RegularFile => (none, copy(directory.as_fd(), name)?),
                _ => (none, None),
            };
            tell(socket, kind, name, leads_to, tree.as_ref().map(|tree| tree.as_fd()))?;
        }
        Ok(())
    };
    let sent = match send(Descriptors::Only(&[kept, socket]), ask) {
        Ok(sent) => sent,
        Err(error) => return Bounded::Failed(error),
    };
    // With our copy closed, the child's exit is end of file.
    drop(theirs);
    collect(text, &ours, sent, deadline)
}

fn kind_of(directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<FileType> {
    let stat = rustix::fs::statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE)?;
    Ok(FileType::from_raw_mode(stat.stx_mode.into()))
}

/// One packet: type, name with its terminator, link target.
fn tell(to: BorrowedFd<'_>, kind: FileType, name: &CStr, leads_to: &[u8], tree: Option<BorrowedFd<'_>>) -> rustix::io::Result<()> {
    let kind = kind.as_raw_mode().to_ne_bytes();
    let parts = [IoSlice::new(&kind), IoSlice::new(name.to_bytes_with_nul()), IoSlice::new(leads_to)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(tree) = &tree {
        control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(tree)));
    }
    rustix::net::sendmsg(to, &parts, &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// Receives in parallel with the child: the entries may exceed the socket's buffer.
fn collect(text: &str, from: &OwnedFd, sent: Pending<()>, deadline: Instant) -> Bounded<Vec<Listed>> {
    let mut listed = Vec::new();
    loop {
        match hear(from, deadline) {
            Ok(Some(entry)) => listed.push(entry),
            // Finished or late: `finish` tells which.
            Ok(None) | Err(Errno::TIMEDOUT) => return finish(|| text.to_owned(), sent, deadline).map(|()| Bounded::Done(listed)),
            Err(errno) => return Bounded::Failed(Error::new(format!("recvmsg({text})"), errno)),
        }
    }
}

/// `None`: end of file.
fn hear(from: &OwnedFd, until: Instant) -> rustix::io::Result<Option<Listed>> {
    if !crate::deadline::is_readable(from.as_fd(), until)? {
        return Err(Errno::TIMEDOUT);
    }
    let mut packet = [0u8; LONGEST_PATH + 512];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(from, &mut [IoSliceMut::new(&mut packet)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let tree = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let (kind, rest) = packet[..received.bytes].split_first_chunk().ok_or(Errno::PROTO)?;
    let name = CStr::from_bytes_until_nul(rest).map_err(|_| Errno::PROTO)?;
    let kind = FileType::from_raw_mode(u32::from_ne_bytes(*kind));
    let leads_to = (kind == FileType::Symlink).then(|| rest[name.count_bytes() + 1..].to_vec());
    Ok(Some(Listed { name: name.to_bytes().to_vec(), kind, leads_to, tree }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn in_time() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn sorted(listed: Bounded<Vec<Listed>>) -> crate::Result<Vec<Listed>> {
        let mut listed = listed.or_timed_out(String::new)?;
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(listed)
    }

    #[test]
    fn a_directory_is_listed_whatever_is_in_it() {
        let place = std::env::temp_dir().join(format!("call-list-{}", std::process::id()));
        std::fs::create_dir_all(place.join("directory")).unwrap();
        std::fs::write(place.join("file"), "").unwrap();
        std::os::unix::fs::symlink("../somewhere", place.join("link")).unwrap();
        // More than a socket's buffer holds.
        (0..1000).for_each(|number| std::fs::write(place.join(format!("more-{number:04}")), "").unwrap());
        let directory = std::fs::File::open(&place).unwrap();
        let listed = sorted(list(directory.as_fd(), in_time()));
        std::fs::remove_dir_all(&place).unwrap();
        let listed = listed.unwrap();
        let few: Vec<_> = listed.iter().take(3).map(|entry| (&entry.name[..], entry.kind, entry.leads_to.as_deref())).collect();
        let expected = [
            (&b"directory"[..], FileType::Directory, None),
            (b"file", FileType::RegularFile, None),
            (b"link", FileType::Symlink, Some(&b"../somewhere"[..])),
        ];
        assert_eq!((few.as_slice(), listed.len()), (&expected[..], 1003));
        assert!(listed.iter().all(|entry| entry.tree.is_none()));
    }

    #[test]
    fn what_is_no_directory_is_an_error() {
        let file = std::fs::File::open("/proc/version").unwrap();
        assert_eq!(sorted(list(file.as_fd(), in_time())).unwrap_err().errno(), Errno::NOTDIR);
    }
}
