//! Sparse files: which parts of the file the archive holds.

use crate::layers::decimal::decimal;
use crate::layers::values::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// The data of a sparse file in an extended header.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sparse {
    pub(crate) size: u64,
    pub(crate) map: Vec<Segment>,
    pub(crate) map_in_content: bool,
}

impl Sparse {
    /// `None`: the map is at the start of the content.
    pub(crate) fn checked_map(self, stored: u64) -> Result<Option<Vec<Segment>>, Error> {
        if self.map_in_content { Ok(None) } else { checked(self.map, self.size, stored).map(Some) }
    }
}

/// The map, if it is valid: in order, within the file's size, and as long as what is stored.
pub(crate) fn checked(map: Vec<Segment>, size: u64, stored: u64) -> Result<Vec<Segment>, Error> {
    const WRONG: Error = Error::Malformed("a sparse file whose map is wrong");
    let mut position = 0;
    let mut content = 0u64;
    for segment in &map {
        let end = segment.offset.checked_add(segment.length).ok_or(WRONG)?;
        if segment.offset < position || end > size {
            return Err(WRONG);
        }
        position = end;
        content += segment.length;
    }
    if content == stored { Ok(map) } else { Err(WRONG) }
}

/// Reads the map from the start of the content, in format 1.0: the number of segments, then offset and length of each, one decimal number
/// per line, padded to a whole block. Calls `next_block` for each block; returns the map and how many bytes it took.
pub(crate) fn read_map(mut next_block: impl FnMut() -> Result<[u8; 512], Error>, limit: u64) -> Result<(Vec<Segment>, u64), Error> {
    let mut numbers = Vec::new();
    let mut line = Vec::new();
    let mut taken = 0;
    let mut count = None;
    loop {
        taken += 512;
        if taken > limit {
            return Err(Error::Limit { what: "bytes in the map of a sparse file", limit });
        }
        for byte in next_block()? {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            let number = decimal(&line)?;
            line.clear();
            match count {
                None => count = Some(number),
                Some(_) => numbers.push(number),
            }
            if count.is_some_and(|count| numbers.len() as u64 == count.saturating_mul(2)) {
                let pairs = numbers.chunks_exact(2).map(|pair| Segment { offset: pair[0], length: pair[1] });
                return Ok((pairs.collect(), taken));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_must_fit_its_file() {
        type Row<'a> = (&'a str, &'a [(u64, u64)], u64, u64, bool);
        let rows: &[Row<'_>] = &[
            ("only a hole", &[], 100, 0, true),
            ("two parts", &[(0, 10), (50, 10)], 60, 20, true),
            ("an empty part at the end", &[(0, 10), (60, 0)], 60, 10, true),
            ("overlapping", &[(0, 10), (5, 10)], 60, 20, false),
            ("backwards", &[(50, 10), (0, 10)], 60, 20, false),
            ("past the end", &[(55, 10)], 60, 10, false),
            ("overflowing", &[(u64::MAX, 10)], 60, 10, false),
            ("more than is stored", &[(0, 10)], 60, 9, false),
            ("less than is stored", &[(0, 10)], 60, 11, false),
        ];
        for (name, map, size, stored, fits) in rows {
            let map = map.iter().map(|(offset, length)| Segment { offset: *offset, length: *length }).collect();
            assert_eq!(checked(map, *size, *stored).is_ok(), *fits, "{name}");
        }
    }

    #[test]
    fn a_map_is_read_across_blocks_and_within_its_limit() {
        let text = format!("100\n{}", "1\n2\n".repeat(100));
        let mut blocks = text.as_bytes().chunks(512).map(|chunk| {
            let mut block = [0; 512];
            block[..chunk.len()].copy_from_slice(chunk);
            Ok(block)
        });
        let (map, taken) = read_map(|| blocks.next().unwrap(), 4096).unwrap();
        assert_eq!((map.len(), taken), (100, 512));
        assert!(read_map(|| Ok([b'1'; 512]), 4096).is_err());
        assert!(read_map(|| Ok([b'\n'; 512]), 4096).is_err());
    }
}
