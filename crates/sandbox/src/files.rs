//! The files that a client gets besides its image, read before it runs.

use std::fs;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use shorefast_sys as sys;

use crate::error::Error;
use crate::orders::{FilePlace, ReadFile};
use crate::spec::{Content, Identity, Ids, Spec};

/// Nobody needs more in a key or a password file.
const LIMIT: u64 = 1 << 20;
/// Read at once.
const USUAL: usize = 4096;

pub fn read(spec: &Spec, image: &OwnedFd, ids: Ids) -> Result<Vec<ReadFile>, Error> {
    let mut files = read_given(spec)?;
    let users: Vec<_> =
        users(image, spec.identity, ids).into_iter().filter(|file| files.iter().all(|given| given.inside != file.inside)).collect();
    files.extend(users);
    Ok(files)
}

/// Those of the plan, and none of ours.
pub fn read_given(spec: &Spec) -> Result<Vec<ReadFile>, Error> {
    let mut files = Vec::new();
    for file in &spec.files {
        let owned = if file.is_ours() { FilePlace::Ours } else { FilePlace::EtcOwned };
        let (content, mode, place) = match &file.content {
            Content::Text(text) => (Some(text.clone().into_bytes()), 0o600, owned),
            Content::Host(path) => (Some(read_host_file(path)?), 0o400, owned),
            Content::HostIfThere(path) => (read_host_file(path).ok(), 0o644, FilePlace::Etc),
        };
        let inside = file.inside.as_os_str().as_bytes().to_vec();
        files.extend(content.map(|content| ReadFile { inside, content, mode, place }));
    }
    Ok(files)
}

fn read_host_file(path: &Path) -> Result<Vec<u8>, Error> {
    let fail = |error: std::io::Error| {
        let errno = rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
        Error::File { path: path.to_owned(), source: sys::Error::new(format!("read({path:?})"), errno) }
    };
    // NONBLOCK: a FIFO must not make us wait.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| fail(errno.into()))?);
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(fail(rustix::io::Errno::INVAL.into()));
    }
    if metadata.len() > LIMIT {
        return Err(fail(rustix::io::Errno::FBIG.into()));
    }
    let mut content = Vec::with_capacity(USUAL);
    file.take(LIMIT).read_to_end(&mut content).map_err(fail)?;
    Ok(content)
}

/// The image's users and groups plus the one that the client is, if it lacks that: ssh and others
/// refuse to work for a user without a name. Images made straight from packages have none at all.
fn users(image: &OwnedFd, identity: Identity, ids: Ids) -> Vec<ReadFile> {
    let id = ids.dedicated();
    let rows = [
        ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", format!("shorefast:x:{id}:{id}:mount client:/root:/bin/sh\n")),
        ("etc/group", "root:x:0:\nnogroup:x:65534:\n", format!("shorefast:x:{id}:\n")),
    ];
    let mut files = Vec::new();
    for (path, if_missing, dedicated) in rows {
        let mut content = read_image_file(image, path);
        let is_missing = content.is_empty();
        if is_missing {
            content.extend(if_missing.bytes());
        } else if content.last() != Some(&b'\n') {
            content.push(b'\n');
        }
        if identity == Identity::DedicatedUser {
            content.extend(dedicated.bytes());
        }
        if is_missing || identity == Identity::DedicatedUser {
            files.push(ReadFile { inside: format!("/{path}").into_bytes(), content, mode: 0o644, place: FilePlace::Etc });
        }
    }
    files
}

/// Empty if it is not there.
fn read_image_file(image: &OwnedFd, path: &str) -> Vec<u8> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = rustix::fs::openat2(image, path, flags, Mode::empty(), rustix::fs::ResolveFlags::IN_ROOT);
    let mut content = Vec::with_capacity(USUAL);
    if let Ok(file) = open {
        let _ = fs::File::from(file).take(LIMIT).read_to_end(&mut content);
    }
    content
}
