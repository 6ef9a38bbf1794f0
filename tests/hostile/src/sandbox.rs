//! Where the client finds itself: what it was given at the start, and how it looks at its surroundings.

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{c_ulong, pid_t};

use crate::sys::{self, Answer, at};

/// Taken by `main` before anything else happens.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// The one place where the client may mount.
    pub(crate) target: CString,
    /// Who started the client.
    pub(crate) parent: pid_t,
    /// Descriptors above 2 that were open when the client began.
    pub(crate) inherited: Vec<String>,
    /// The working directory the client began in.
    pub(crate) cwd: PathBuf,
    mounts: Vec<u64>,
}

/// A directory that every client may write to.
pub(crate) const SCRATCH: &str = "/tmp";

impl Sandbox {
    pub(crate) fn look(target: &OsStr) -> Sandbox {
        Sandbox {
            inherited: descriptors().into_iter().filter(|(fd, _)| *fd > 2).map(|(fd, to)| format!("{fd} -> {to}")).collect(),
            parent: std::os::unix::process::parent_id() as pid_t,
            cwd: fs::read_link("/proc/self/cwd").unwrap_or_default(),
            mounts: mount_table().iter().map(|mount| mount.id).collect(),
            target: CString::new(target.as_bytes()).expect("arguments hold no NUL"),
        }
    }

    pub(crate) fn target_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.target.as_bytes()))
    }

    /// What was mounted since the client began.
    pub(crate) fn new_mounts(&self) -> Vec<Mount> {
        mount_table().into_iter().filter(|mount| !self.mounts.contains(&mount.id)).collect()
    }

    /// New mounts that were not allowed: another type, another place, or one too many.
    pub(crate) fn forbidden_mounts(&self) -> Vec<String> {
        let new = self.new_mounts();
        let stray = |mount: &&Mount| mount.at != self.target_path() || !["tmpfs", "fuse"].contains(&mount.fstype.as_str());
        let mut found: Vec<String> = new.iter().filter(stray).map(|mount| format!("{} at {}", mount.fstype, mount.at.display())).collect();
        if new.len() > 1 {
            found.push(format!("{} mounts", new.len()));
        }
        found
    }
}

/// A line of /proc/self/mountinfo.
#[derive(Debug)]
pub(crate) struct Mount {
    pub(crate) id: u64,
    pub(crate) at: PathBuf,
    pub(crate) options: String,
    pub(crate) fstype: String,
    pub(crate) source: String,
    /// The filesystem's own options, e.g. whose connection a FUSE mount is.
    pub(crate) superblock: String,
}

pub(crate) fn mount_table() -> Vec<Mount> {
    let text = fs::read("/proc/self/mountinfo").expect("rows that look at mounts need /proc");
    text.split(|byte| *byte == b'\n').filter_map(mount_line).collect()
}

fn mount_line(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    let text = |index: usize| fields.get(index).map(|field| String::from_utf8_lossy(field).into_owned());
    Some(Mount {
        id: text(0)?.parse().ok()?,
        at: PathBuf::from(OsStr::from_bytes(&unescape(fields.get(4)?))),
        options: text(5)?,
        fstype: text(dash + 1)?,
        source: text(dash + 2)?,
        superblock: text(dash + 3)?,
    })
}

fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let code = (*first == b'\\').then(|| tail.get(..3)).flatten();
        let byte = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[3..] } else { tail };
    }
    out
}

/// mount(2) with proper strings; rows that want improper ones use `mount_words`.
pub(crate) fn mount(source: &CStr, target: &CStr, fstype: &CStr, flags: c_ulong, data: &CStr) -> Answer {
    mount_words([at(source), at(target), at(fstype), flags as usize, at(data)])
}

pub(crate) fn mount_words(words: [usize; 5]) -> Answer {
    sys::call(libc::SYS_mount, words)
}

pub(crate) fn umount(target: &CStr, flags: i32) -> Answer {
    sys::call(libc::SYS_umount2, [at(target), flags as usize])
}

/// Number and destination of each open descriptor, without the one that reads the list.
pub(crate) fn descriptors() -> Vec<(i32, String)> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let link = |fd: i32| Some((fd, fs::read_link(format!("/proc/self/fd/{fd}")).ok()?.display().to_string()));
    numbers.into_iter().filter_map(link).collect()
}

/// Every process that /proc shows.
pub(crate) fn processes() -> Vec<pid_t> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A line of /proc/PID/status, without its name.
pub(crate) fn status_field(pid: &str, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// A path as system calls want it.
pub(crate) fn c_path(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).expect("paths hold no NUL")
}

/// A new empty directory in scratch.
pub(crate) fn scratch_dir(name: &str) -> PathBuf {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let dir = Path::new(SCRATCH).join(format!("{name}-{}-{number}", sys::pid()));
    fs::create_dir_all(&dir).expect("scratch is writable");
    dir
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_mountinfo_line_with_escapes_and_optional_fields() {
        let line = br"36 35 98:0 /mnt1 /a\040b\012c rw,noatime master:1 shared:2 - fuse.x a\040b rw";
        let mount = mount_line(line).expect("the line is valid");
        assert_eq!((mount.id, mount.at.to_str()), (36, Some("/a b\nc")));
        assert_eq!((mount.fstype.as_str(), mount.source.as_str()), ("fuse.x", r"a\040b"));
    }
}
