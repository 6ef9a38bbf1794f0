//! In: a header and its extensions. Out: one entry of an archive.

use std::io::{self, ErrorKind};

use rustix::fs::Timespec;

use crate::layers::limits::{Limits, within};
use crate::layers::pax;
use crate::layers::sparse::{self, Segment};
use crate::layers::values::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// As in the archive.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Timespec,
    /// In the archive; a sparse file is larger.
    pub(crate) stored: u64,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    File,
    /// `None`: the map is at the start of the content.
    Sparse {
        size: u64,
        map: Option<Vec<Segment>>,
    },
    Symlink(Vec<u8>),
    HardLink(Vec<u8>),
    /// A device or a FIFO: not created, but it hides what it replaces.
    Special,
    /// Ignored.
    Unknown,
}

/// The fields of a header block.
pub(crate) type Block = [u8; 512];

/// Headers that extend the next one.
#[derive(Debug, Default)]
pub(crate) struct Extensions {
    pub(crate) long_name: Option<Vec<u8>>,
    pub(crate) long_link: Option<Vec<u8>>,
    pub(crate) pax: pax::Records,
}

/// An invalid owner: all ones means "unchanged" to chown(2).
const NO_ID: u64 = u32::MAX as u64;

impl Entry {
    /// `gnu_map`: the sparse map, for a header of GNU's sparse type.
    pub(crate) fn read(block: &Block, more: Extensions, gnu_map: Option<Vec<Segment>>, limits: &Limits) -> Result<Self, Error> {
        let header = tar::Header::from_byte_slice(block);
        let old = header.as_old();
        let Extensions { long_name, long_link, pax } = more;
        // The sparse file's real name; the one in the header is synthetic.
        let path = pax.sparse_name.or(pax.path).or(long_name).unwrap_or_else(|| header.path_bytes().into_owned());
        let link = pax.link.or(long_link).or_else(|| header.link_name_bytes().map(|link| link.into_owned()));
        for text in [Some(&path), link.as_ref()].into_iter().flatten() {
            within(text.len() as u64, limits.path_bytes, "bytes in a path")?;
            if text.contains(&0) {
                return Err(Error::Malformed("a name with a zero byte"));
            }
        }
        let stored = pax.size.map_or_else(|| unsigned(&old.size), Ok)?;
        let link = || link.clone().filter(|link| !link.is_empty()).ok_or(Error::Malformed("a link without a target"));
        let kind = match old.linkflag[0] {
            // From before there was a type for directories.
            b'0' | 0 if path.ends_with(b"/") => Kind::Directory,
            b'0' | 0 | b'7' | b'S' => match (gnu_map, pax.sparse) {
                (Some(map), _) => {
                    let size = header.as_gnu().map_or(Ok(0), |gnu| unsigned(&gnu.realsize))?;
                    Kind::Sparse { size, map: Some(sparse::checked(map, size, stored)?) }
                }
                (None, Some(sparse)) => Kind::Sparse { size: sparse.size, map: sparse.checked_map(stored)? },
                (None, None) => Kind::File,
            },
            b'1' => Kind::HardLink(link()?),
            b'2' => Kind::Symlink(link()?),
            b'3' | b'4' | b'6' => Kind::Special,
            b'5' => Kind::Directory,
            _ => Kind::Unknown,
        };
        let id = |pax: Option<u64>, field: &[u8]| match pax.map_or_else(|| unsigned(field), Ok)? {
            id if id < NO_ID => Ok(id as u32),
            _ => Err(Error::Malformed("an owner out of range")),
        };
        Ok(Self {
            uid: id(pax.uid, &old.uid)?,
            gid: id(pax.gid, &old.gid)?,
            mode: (unsigned(&old.mode)? & 0o7777) as u32,
            mtime: pax.mtime.map_or_else(|| number(&old.mtime).map(|tv_sec| Timespec { tv_sec, tv_nsec: 0 }), Ok)?,
            xattrs: pax.xattrs,
            path,
            kind,
            stored,
        })
    }
}

pub(crate) fn unsigned(field: &[u8]) -> Result<u64, Error> {
    number(field)?.try_into().map_err(|_| Error::Malformed("a negative number"))
}

/// Octal digits between blanks and zeros, or a binary number marked by its highest bit (GNU). An empty field is zero: many writers leave
/// out irrelevant fields.
fn number(field: &[u8]) -> Result<i64, Error> {
    const WRONG: Error = Error::Malformed("a number that is none");
    match field.first() {
        Some(first) if first & 0x80 != 0 => {
            // Two's complement; the mark is not part of it, the next bit is the sign.
            let sign = if first & 0x40 != 0 { -1 } else { 0 };
            let first = i128::from(first & 0x7f) | (sign << 7);
            let value = field[1..].iter().try_fold(first, |value, byte| value.checked_mul(256)?.checked_add(i128::from(*byte)));
            value.and_then(|value| value.try_into().ok()).ok_or(WRONG)
        }
        _ => {
            let text = field.split(|byte| *byte == 0).next().unwrap_or_default().trim_ascii();
            text.iter().try_fold(0i64, |value, digit| match digit {
                b'0'..=b'7' => value.checked_mul(8).and_then(|value| value.checked_add(i64::from(digit - b'0'))).ok_or(WRONG),
                _ => Err(WRONG),
            })
        }
    }
}

/// Over all bytes, with the checksum field taken as blanks. Some old writers summed signed bytes.
pub(crate) fn checksum_holds(block: &Block) -> bool {
    let Ok(claimed) = number(&tar::Header::from_byte_slice(block).as_old().cksum) else { return false };
    let bytes = || block[..148].iter().chain(&[b' '; 8]).chain(&block[156..]);
    let unsigned: i64 = bytes().map(|byte| i64::from(*byte)).sum();
    let signed = || bytes().map(|byte| i64::from(byte.cast_signed())).sum::<i64>();
    claimed == unsigned || claimed == signed()
}

/// A path without dots and doubled slashes; empty for the root itself.
pub(crate) fn cleaned(path: &[u8], limits: &Limits) -> Result<Vec<u8>, io::Error> {
    let mut result = Vec::with_capacity(path.len());
    let mut nesting = 0;
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return Err(io::Error::new(ErrorKind::InvalidData, "its name leads upwards")),
            name => {
                if !result.is_empty() {
                    result.push(b'/');
                }
                result.extend_from_slice(name);
                nesting += 1;
            }
        }
    }
    if nesting > limits.nesting {
        return Err(io::Error::new(ErrorKind::InvalidData, "its name is nested too deeply"));
    }
    Ok(result)
}

/// The directory and the name in it.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_in_octal_and_in_binary() {
        let rows: &[(&[u8], Option<i64>)] = &[
            (b"0000755\0", Some(0o755)),
            (b"   755 \0", Some(0o755)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"8", None),
            (b"-1", None),
            (b"77777777777", Some(0o77777777777)),
            (&[0x80, 0, 0, 0, 0, 0, 1, 0], Some(256)),
            (&[0xff; 12], Some(-1)),
            (&[0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], None),
        ];
        for (field, expected) in rows {
            assert_eq!(number(field).ok(), *expected, "{field:?}");
        }
    }

    #[test]
    fn a_clean_path_has_no_dots() {
        let rows: &[(&str, Option<&str>)] = &[
            ("./usr//bin/./tool", Some("usr/bin/tool")),
            ("/etc/passwd", Some("etc/passwd")),
            ("./", Some("")),
            ("", Some("")),
            ("...", Some("...")),
            ("../x", None),
            ("a/../b", None),
            ("a/..", None),
        ];
        for (path, expected) in rows {
            assert_eq!(cleaned(path.as_bytes(), &Limits::default()).ok().as_deref(), expected.map(str::as_bytes), "{path}");
        }
        assert!(cleaned("a/".repeat(257).as_bytes(), &Limits::default()).is_err());
    }
}
