//! In: POSIX extended headers, `length key=value` lines. Out: overrides for fields of the next header.

use rustix::fs::Timespec;

use crate::layers::decimal::decimal;
use crate::layers::limits::{Limits, within};
use crate::layers::sparse::{Segment, Sparse};
use crate::layers::values::Error;

/// The extended attributes that are kept: no other attribute of an image may affect the kernel.
const KEPT_XATTRS: &[u8] = b"user.";
const XATTR: &[u8] = b"SCHILY.xattr.";

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Records {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) uid: Option<u64>,
    pub(crate) gid: Option<u64>,
    pub(crate) mtime: Option<Timespec>,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) sparse: Option<Sparse>,
    pub(crate) sparse_name: Option<Vec<u8>>,
}

pub(crate) fn parse(mut bytes: &[u8], limits: &Limits) -> Result<Records, Error> {
    let mut records = Records::default();
    while !bytes.is_empty() {
        let (record, rest) = split_record(bytes)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or(Error::Malformed("an extended header without a value"))?;
        records.take(&record[..equals], &record[equals + 1..], limits)?;
        bytes = rest;
    }
    Ok(records)
}

/// The record without its length and its newline, and what follows it.
fn split_record(bytes: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    const WRONG: Error = Error::Malformed("an extended header with a wrong length");
    // Twenty digits are more than any length has.
    let blank = bytes.iter().take(20).position(|byte| *byte == b' ').ok_or(WRONG)?;
    let length = usize::try_from(decimal(&bytes[..blank]).map_err(|_| WRONG)?).map_err(|_| WRONG)?;
    if length < blank + 2 || length > bytes.len() || bytes[length - 1] != b'\n' {
        return Err(WRONG);
    }
    Ok((&bytes[blank + 1..length - 1], &bytes[length..]))
}

impl Records {
    fn take(&mut self, key: &[u8], value: &[u8], limits: &Limits) -> Result<(), Error> {
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match key {
            b"path" => self.path = text(),
            b"linkpath" => self.link = text(),
            b"size" => self.size = Some(decimal(value)?),
            b"uid" => self.uid = Some(decimal(value)?),
            b"gid" => self.gid = Some(decimal(value)?),
            b"mtime" => self.mtime = Some(time(value)?),
            b"GNU.sparse.name" => self.sparse_name = text(),
            _ if key.starts_with(b"GNU.sparse.") => self.take_sparse(&key[b"GNU.sparse.".len()..], value)?,
            _ if key.strip_prefix(XATTR).is_some_and(|name| name.starts_with(KEPT_XATTRS)) => {
                within(value.len() as u64, limits.xattr_bytes, "bytes in an extended attribute")?;
                let name = &key[XATTR.len()..];
                if name.contains(&0) {
                    return Err(Error::Malformed("an attribute's name with a zero byte"));
                }
                self.xattrs.push((name.to_owned(), value.to_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    /// GNU tar's three formats for the same thing, see its manual: 0.0, 0.1 and 1.0.
    fn take_sparse(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let sparse = self.sparse.get_or_insert_default();
        match key {
            b"major" => sparse.map_in_content = decimal(value)? == 1,
            b"size" | b"realsize" => sparse.size = decimal(value)?,
            b"offset" => sparse.map.push(Segment { offset: decimal(value)?, length: 0 }),
            b"numbytes" => {
                let last = sparse.map.last_mut().ok_or(Error::Malformed("a sparse file without an offset"))?;
                last.length = decimal(value)?;
            }
            b"map" => {
                let numbers: Vec<_> = value.split(|byte| *byte == b',').map(decimal).collect::<Result<_, _>>()?;
                let pairs = numbers.chunks_exact(2).map(|pair| Segment { offset: pair[0], length: pair[1] });
                sparse.map = pairs.collect();
            }
            _ => {}
        }
        Ok(())
    }
}

/// Seconds since 1970 with any number of decimals; may be negative.
fn time(text: &[u8]) -> Result<Timespec, Error> {
    const WRONG: Error = Error::Malformed("a time that is none");
    let (negative, text) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let seconds = i64::try_from(decimal(parts.next().unwrap_or_default())?).map_err(|_| WRONG)?;
    let fraction = parts.next().unwrap_or_default();
    let mut nanoseconds = 0;
    for place in 0..9 {
        let digit = fraction.get(place).copied().unwrap_or(b'0');
        nanoseconds = nanoseconds * 10 + if digit.is_ascii_digit() { i64::from(digit - b'0') } else { return Err(WRONG) };
    }
    Ok(match (negative, nanoseconds) {
        (false, _) => Timespec { tv_sec: seconds, tv_nsec: nanoseconds },
        (true, 0) => Timespec { tv_sec: -seconds, tv_nsec: 0 },
        // tv_nsec is never negative.
        (true, _) => Timespec { tv_sec: -seconds - 1, tv_nsec: 1_000_000_000 - nanoseconds },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_by_their_length() {
        let text = b"18 path=with=equal\n22 SCHILY.xattr.user.a=b\n"; // the second length is wrong
        assert!(parse(text, &Limits::default()).is_err());
        let text = b"19 path=with=equal\n27 SCHILY.xattr.user.a=\n\nb\n13 mtime=1.5\n14 ignored=it\n";
        let records = parse(text, &Limits::default()).unwrap();
        assert_eq!(records.path.as_deref(), Some(b"with=equal".as_slice()));
        assert_eq!(records.xattrs, [(b"user.a".to_vec(), b"\n\nb".to_vec())]);
        assert_eq!(records.mtime, Some(Timespec { tv_sec: 1, tv_nsec: 500_000_000 }));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for text in
            ["0 a=b\n", "1 a=b\n", "5 a=b\n", "7 a=b\n", "6 a=b", "99999999999999999999999 a=b\n", "6 a b\n", "a=b\n", " a=b\n", "-6 a=b\n"]
        {
            assert!(parse(text.as_bytes(), &Limits::default()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_attributes_of_users_are_kept() {
        let text = b"34 SCHILY.xattr.security.capab=x\n\n29 SCHILY.xattr.trusted.a=xy\n25 SCHILY.xattr.user.a=x\n";
        assert_eq!(parse(text, &Limits::default()).unwrap().xattrs, [(b"user.a".to_vec(), b"x".to_vec())]);
    }

    #[test]
    fn times_may_have_decimals_and_be_before_1970() {
        let rows: &[(&str, Option<(i64, i64)>)] = &[
            ("0", Some((0, 0))),
            ("1700000000.123456789", Some((1_700_000_000, 123_456_789))),
            ("1.25", Some((1, 250_000_000))),
            ("1.0000000009", Some((1, 0))),
            ("-1", Some((-1, 0))),
            ("-1.25", Some((-2, 750_000_000))),
            ("", None),
            ("x", None),
            ("1.x", None),
            ("99999999999999999999", None),
        ];
        for (text, expected) in rows {
            let read = time(text.as_bytes()).ok().map(|time| (time.tv_sec, time.tv_nsec));
            assert_eq!(read, *expected, "{text}");
        }
    }
}
