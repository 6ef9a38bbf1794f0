//! Reads the files that a client gets besides its image. In: the [`Spec`]. Out: their contents, in memory. Runs before
//! the client starts.

use std::fs;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{Mode, OFlags};
use shorefast_sys as sys;
use sys::bounded_call;

use crate::error::Error;
use crate::launcher::node;
use crate::spec::{Content, Hidden, Identity, Ids, Secret, SecretForm, SecretKind, Spec, is_private_key};

#[derive(Debug)]
pub struct ReadFile {
    pub inside: Vec<u8>,
    pub content: Vec<u8>,
    pub mode: u32,
    pub place: FilePlace,
}

/// Where a file for the client is created, and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePlace {
    /// Below a directory that the sandbox provides; owned by the client.
    Ours,
    /// In /etc; owned by the client.
    EtcOwned,
    /// In /etc; owned by root.
    Etc,
}

/// More than any key or password file needs.
const LIMIT: usize = 1 << 20;
/// The initial buffer: most files fit, and are read with one call.
const USUAL: usize = 4096;

/// The caller's files may be on a filesystem that does not respond, or a pipe. Reading them has to finish by the
/// deadline.
pub fn read(spec: &Spec, image: &OwnedFd, ids: Ids, deadline: Instant) -> Result<Vec<ReadFile>, Error> {
    let mut files = read_given(spec, deadline)?;
    let users: Vec<_> =
        users(image, spec.identity, ids).into_iter().filter(|file| files.iter().all(|given| given.inside != file.inside)).collect();
    files.extend(users);
    Ok(files)
}

/// Creates the file in the root that is being assembled.
pub fn write_out(file: &ReadFile, to: &Path, owner: u32) -> sys::Result<()> {
    node::make_file(to, &file.content, file.mode)?;
    if file.place == FilePlace::Etc { Ok(()) } else { node::give(to, owner) }
}

/// The files of the plan, without the users and groups that we add.
pub fn read_given(spec: &Spec, deadline: Instant) -> Result<Vec<ReadFile>, Error> {
    let mut files = Vec::new();
    for file in &spec.files {
        let owned = if file.is_ours() { FilePlace::Ours } else { FilePlace::EtcOwned };
        let mut inside = file.inside.as_path();
        let (content, mode, place) = match &file.content {
            Content::Text(text) => (Some(text.clone().into_bytes()), 0o600, owned),
            Content::TextWithMode(text, mode) => (Some(text.clone().into_bytes()), *mode, owned),
            Content::Host(path) => (Some(read_callers_file(path, deadline)?), 0o400, owned),
            Content::HostIfThere(path) => (read_hosts_own(path), 0o644, FilePlace::Etc),
            Content::Secret { secret, form } => {
                let (content, is_password) = read_secret(secret, form, deadline)?;
                inside = form.password_file.as_deref().filter(|_| is_password).unwrap_or(inside);
                (Some(content), 0o400, owned)
            }
        };
        let inside = inside.as_os_str().as_bytes().to_vec();
        files.extend(content.map(|content| ReadFile { inside, content, mode, place }));
    }
    Ok(files)
}

/// The spec with the caller's files read into memory: a pipe can be read only once, and the client may have to be
/// started more than once.
pub fn with_callers_files(spec: &Spec, deadline: Instant) -> Result<Spec, Error> {
    let mut spec = spec.clone();
    for file in &mut spec.files {
        let read = |path: &Path| read_callers_file(path, deadline).map(|content| Secret::Given(Hidden::new(content)));
        match &mut file.content {
            Content::Secret { secret, .. } => {
                if let Secret::Host(path) = secret {
                    *secret = read(path)?;
                }
            }
            Content::Host(path) => file.content = Content::Secret { secret: read(path)?, form: SecretForm::default() },
            Content::Text(_) | Content::TextWithMode(..) | Content::HostIfThere(_) => {}
        }
    }
    Ok(spec)
}

/// Its content as the client reads it, and whether it is a password for a client that wants a key.
fn read_secret(secret: &Secret, form: &SecretForm, deadline: Instant) -> Result<(Vec<u8>, bool), Error> {
    let (read, path) = match secret {
        Secret::Given(text) => (text.reveal().to_vec(), None),
        Secret::Host(path) => (read_callers_file(path, deadline)?, Some(path.clone())),
    };
    let (key, password) = ("a private key", "no private key");
    match (form.kind, is_private_key(&read)) {
        (SecretKind::Password, true) => Err(Error::SecretKind { path, found: key, wanted: "a password" }),
        (SecretKind::Key, false) if form.password_file.is_none() => Err(Error::SecretKind { path, found: password, wanted: "one" }),
        // One line, whatever the form of a key is.
        (SecretKind::Key, false) => {
            let line = SecretForm { after: "\n".to_owned(), ..SecretForm::default() };
            line.fill(&read).map(|password| (password, true)).ok_or(Error::SecretLines { path })
        }
        _ => form.fill(&read).map(|content| (content, false)).ok_or(Error::SecretLines { path }),
    }
}

fn read_callers_file(path: &Path, deadline: Instant) -> Result<Vec<u8>, Error> {
    let text = || format!("read({path:?})");
    let content = bounded_call::read(path, LIMIT, deadline).or_timed_out(text);
    let content = content.map_err(|source| Error::File { path: path.to_owned(), source })?;
    if content.len() > LIMIT {
        return Err(Error::File { path: path.to_owned(), source: sys::Error::new(text(), rustix::io::Errno::FBIG) });
    }
    Ok(content)
}

/// The image's passwd and group plus the client's own user, if they lack it: ssh and others refuse to run for a uid
/// without a name. Images made directly from packages have neither file.
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

/// NONBLOCK: opening a FIFO must not block.
const PLAIN: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

fn read_hosts_own(path: &Path) -> Option<Vec<u8>> {
    rustix::fs::open(path, PLAIN, Mode::empty()).ok().map(read_small)
}

/// Empty if it does not exist.
fn read_image_file(image: &OwnedFd, path: &str) -> Vec<u8> {
    let open = rustix::fs::openat2(image, path, PLAIN, Mode::empty(), rustix::fs::ResolveFlags::IN_ROOT);
    open.map(read_small).unwrap_or_default()
}

fn read_small(file: OwnedFd) -> Vec<u8> {
    let mut content = Vec::with_capacity(USUAL);
    let _ = fs::File::from(file).take(LIMIT as u64).read_to_end(&mut content);
    content
}
