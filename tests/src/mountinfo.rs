//! /proc/…/mountinfo, read independently of the product's own parser: a mistake there must not hide itself.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub id: u32,
    /// major:minor
    pub device: String,
    pub point: PathBuf,
    pub flags: Vec<String>,
    pub fstype: String,
    pub source: OsString,
    pub superblock_options: String,
}

impl Mount {
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }
}

/// The calling thread's table: a test's namespaces belong to its thread, not to its process.
pub fn here() -> Vec<Mount> {
    read("/proc/thread-self/mountinfo").expect("every thread can read its own mountinfo")
}

/// What is mounted at `point`, topmost last.
pub fn at(point: impl AsRef<Path>) -> Vec<Mount> {
    here().into_iter().filter(|mount| mount.point == point.as_ref()).collect()
}

pub fn read(path: impl AsRef<Path>) -> std::io::Result<Vec<Mount>> {
    let table = std::fs::read(path)?;
    let lines = table.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(|line| parse(line).unwrap_or_else(|| panic!("odd mountinfo line {:?}", OsStr::from_bytes(line)))).collect())
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let (device, point) = (fields.nth(1)?, fields.nth(1)?);
    let flags = text(fields.next()?).split(',').map(str::to_owned).collect();
    let mut fields = fields.skip_while(|field| field != b"-").skip(1); // optional fields, as many as there are, then a dash
    Some(Mount {
        id,
        device: text(device),
        point: PathBuf::from(unescape(point)),
        flags,
        fstype: text(fields.next()?),
        source: unescape(fields.next()?),
        superblock_options: text(fields.next()?),
    })
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

/// Space, tab, newline and backslash arrive as \040, \011, \012 and \134.
fn unescape(field: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let octal = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            plain.push(byte);
            rest = &after[3..];
        } else {
            plain.push(*first);
            rest = after;
        }
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_with_escapes_and_optional_fields() {
        let line = br"36 35 98:0 / /a\040b\012\134c rw,nosuid shared:1 master:2 - fuse.x host:/d\040e rw,user_id=0";
        let mount = parse(line).expect("a valid line");
        assert_eq!((mount.id, mount.device.as_str()), (36, "98:0"));
        assert_eq!(mount.point, Path::new("/a b\n\\c"));
        assert!(mount.has("nosuid") && !mount.has("nodev"));
        assert_eq!((mount.fstype.as_str(), mount.source.to_str()), ("fuse.x", Some("host:/d e")));
        assert_eq!(mount.superblock_options, "rw,user_id=0");
    }

    #[test]
    fn a_line_that_ends_early_is_no_mount() {
        assert_eq!(parse(b"36 35 98:0 / /a rw - fuse.x"), None);
        assert_eq!(parse(b""), None);
    }
}
