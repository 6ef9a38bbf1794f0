//! Parses /proc/self/mountinfo: its text in, [`Entry`] values out. The kernel writes it, but it contains names that
//! untrusted users chose.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::error::{Result, call};

/// One mount of the calling thread's mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: u64,
    pub parent: u64,
    pub major: u32,
    pub minor: u32,
    pub root: PathBuf,
    pub mount_point: PathBuf,
    pub options: String,
    /// In a peer group: what is mounted on it propagates to its peers.
    pub shared: bool,
    /// The number of that group; 0: none.
    pub peer_group: u64,
    /// The group that it receives mounts from; 0: none.
    pub master: u64,
    pub unbindable: bool,
    pub fstype: String,
    pub source: OsString,
    pub super_options: OsString,
}

pub fn read() -> Result<Vec<Entry>> {
    let path = "/proc/thread-self/mountinfo";
    Ok(parse(&call(|| format!("read({path:?})"), std::fs::read(path))?))
}

/// The same, for a thread that is in a namespace with another /proc, or none: `proc` is the one to read from.
pub fn read_in(proc: BorrowedFd<'_>) -> Result<Vec<Entry>> {
    let opened = rustix::fs::openat(proc, "thread-self/mountinfo", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut table = Vec::new();
    let read = opened.map_err(std::io::Error::from).and_then(|file| std::fs::File::from(file).read_to_end(&mut table));
    call(|| "read(thread-self/mountinfo)".into(), read)?;
    Ok(parse(&table))
}

/// Lines with another format are skipped: the kernel writes none.
pub fn parse(table: &[u8]) -> Vec<Entry> {
    table.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Entry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut text = || fields.next().map(unescape);
    let number = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
    let id = number(text()?)?.parse().ok()?;
    let parent = number(text()?)?.parse().ok()?;
    let device = number(text()?)?;
    let (major, minor) = device.split_once(':')?;
    let root = text()?;
    let mount_point = text()?;
    let options = text()?;
    // Optional fields end with a single dash.
    let (mut peer_group, mut master, mut unbindable) = (0, 0, false);
    loop {
        let field = number(text()?)?;
        match field.split_once(':') {
            Some(("shared", group)) => peer_group = group.parse().ok()?,
            Some(("master", group)) => master = group.parse().ok()?,
            None if field == "unbindable" => unbindable = true,
            None if field == "-" => break,
            _ => {}
        }
    }
    Some(Entry {
        id,
        parent,
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
        root: path(root),
        mount_point: path(mount_point),
        options: String::from_utf8_lossy(&options).into_owned(),
        shared: peer_group != 0,
        peer_group,
        master,
        unbindable,
        fstype: String::from_utf8_lossy(&text()?).into_owned(),
        source: OsString::from_vec(text()?),
        super_options: OsString::from_vec(text()?),
    })
}

/// The mount that a path without symbolic links is on: the deepest mount point above it, and of several there the last.
pub fn covering<'a>(table: &'a [Entry], path: &Path) -> Option<&'a Entry> {
    table.iter().filter(|entry| path.starts_with(&entry.mount_point)).max_by_key(|entry| entry.mount_point.as_os_str().len())
}

fn path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// The kernel writes space, tab, newline and backslash as a backslash and three octal digits.
pub fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_with_optional_fields_and_escapes() {
        let line = b"36 35 98:0 /mnt1 /mnt\\040two\\012\xff rw,noatime master:1 shared:7 - ext3 /dev/ro\\134ot rw,errors=continue\n";
        let entries = parse(line);
        assert_eq!(entries.len(), 1);
        let entry = &entries[0];
        assert_eq!((entry.id, entry.parent, entry.major, entry.minor), (36, 35, 98, 0));
        assert_eq!(entry.mount_point, path(b"/mnt two\n\xff".to_vec()));
        assert!(entry.shared && !entry.unbindable);
        assert_eq!((entry.peer_group, entry.master), (7, 1));
        assert_eq!((entry.fstype.as_str(), entry.source.to_str()), ("ext3", Some("/dev/ro\\ot")));
    }

    #[test]
    fn the_deepest_mount_above_a_path_covers_it() {
        let table = parse(
            b"1 0 8:1 / / rw shared:1 - ext4 /dev/a rw\n\
              2 1 8:2 / /var rw - ext4 /dev/b rw\n\
              3 1 8:3 / /var/lib/kubelet/pods/x rw shared:2 - tmpfs t rw\n\
              4 1 8:4 / /var/lib/kube rw shared:3 master:1 - tmpfs t rw\n\
              5 4 8:5 / /var/lib/kube rw - tmpfs t rw\n",
        );
        for (path, id, shared) in [("/var/lib/kubelet", 2, false), ("/srv", 1, true), ("/var/lib/kube/x", 5, false)] {
            let covering = covering(&table, Path::new(path)).map(|entry| (entry.id, entry.shared));
            assert_eq!(covering, Some((id, shared)), "{path}");
        }
        assert_eq!(covering(&[], Path::new("/")), None);
    }

    #[test]
    fn reads_an_empty_source() {
        assert_eq!(parse(b"1 0 0:2 / /a rw - tmpfs  rw\n")[0].source, "");
    }

    #[test]
    fn leaves_out_what_is_no_line() {
        assert_eq!(parse(b"1 2 3\n\n36 35 98:0 / /m rw shared:1 ext3\n"), []);
    }

    #[test]
    fn reads_this_machine() {
        assert!(read().unwrap().iter().any(|entry| entry.fstype == "proc"));
    }
}
