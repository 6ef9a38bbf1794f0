//! The bounded log: a header with the number of bytes ever written (48 bits) and how the process ended that served the
//! mount (16 bits: its wait status plus one; 0 as long as it lives), then a ring of 64 KiB. `shim/shim.rs` writes it,
//! sharing only this layout; this module reads it. After the ring is space for a note, for data that has to survive the
//! loss of every path to it: it can be read through the descriptor of any process that has the file open
//! ([`write_note`], [`read_note`]).

use std::io::{Read as _, Result, Seek as _, SeekFrom};
use std::os::fd::AsFd;
use std::path::Path;

const HEADER: usize = 8;
const CAPACITY: u64 = 64 * 1024;

/// A log: how much was ever written, and the newest part of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Log {
    pub written: u64,
    pub kept: Vec<u8>,
    /// The wait status of the process that served the mount, once it has ended.
    pub ended: Option<i32>,
}

/// Must agree with `shim/shim.rs`.
const ENDED_SHIFT: u32 = 48;

/// Offset of the note.
const NOTE: u64 = HEADER as u64 + CAPACITY;

pub fn write_note(log: impl AsFd, note: &[u8]) -> Result<()> {
    rustix::io::retry_on_intr(|| rustix::io::pwrite(&log, note, NOTE))?;
    Ok(rustix::fs::ftruncate(&log, NOTE + note.len() as u64)?)
}

pub fn read_note(path: &Path) -> Result<Vec<u8>> {
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(NOTE))?;
    let mut note = Vec::new();
    file.read_to_end(&mut note)?;
    Ok(note)
}

impl Log {
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_from(&std::fs::File::open(path)?)
    }

    /// Of a file that is open: it may have no name any more.
    pub fn read_from(mut file: &std::fs::File) -> Result<Self> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        Ok(Self::decode(&bytes))
    }

    /// The part that was written after the first `seen` bytes, as far as it still exists.
    pub fn since(&self, seen: u64) -> &[u8] {
        let new = self.written.saturating_sub(seen).min(self.kept.len() as u64);
        &self.kept[self.kept.len() - new as usize..]
    }

    fn decode(bytes: &[u8]) -> Self {
        let Some((header, ring)) = bytes.split_first_chunk::<HEADER>() else {
            return Self::default();
        };
        let header = u64::from_ne_bytes(*header);
        let written = header & ((1 << ENDED_SHIFT) - 1);
        let ended = ((header >> ENDED_SHIFT) as i32).checked_sub(1).filter(|status| *status >= 0);
        let ring = &ring[..ring.len().min(CAPACITY as usize)];
        let kept = if written <= CAPACITY {
            ring[..ring.len().min(written as usize)].to_vec()
        } else {
            let oldest = ((written % CAPACITY) as usize).min(ring.len());
            [&ring[oldest..], &ring[..oldest]].concat()
        };
        Self { written, kept, ended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(written: u64, ring: &[u8]) -> Vec<u8> {
        [&written.to_ne_bytes()[..], ring].concat()
    }

    #[test]
    fn a_short_log_is_read_as_written() {
        let log = Log::decode(&ring(5, b"hello"));
        assert_eq!(log.kept, b"hello");
        assert_eq!(log.since(3), b"lo");
    }

    #[test]
    fn a_wrapped_log_starts_with_its_oldest_byte() {
        let mut bytes = vec![b'o'; CAPACITY as usize];
        bytes[..3].copy_from_slice(b"new");
        let log = Log::decode(&ring(CAPACITY + 3, &bytes));
        assert_eq!(log.kept.len(), CAPACITY as usize);
        assert!(log.kept.ends_with(b"new"));
        assert_eq!(log.since(CAPACITY + 1), b"ew");
    }

    #[test]
    fn the_end_of_the_server_is_in_the_header() {
        let ended = |status: u64| Log::decode(&ring(((status + 1) << ENDED_SHIFT) | 5, b"hello"));
        assert_eq!(Log::decode(&ring(5, b"hello")).ended, None);
        assert_eq!((ended(0).ended, ended(0).written), (Some(0), 5));
        assert_eq!((ended(0xff00).ended, ended(9).ended), (Some(0xff00), Some(9)));
    }

    #[test]
    fn nothing_written_is_empty() {
        assert_eq!(Log::decode(b""), Log::default());
    }
}
