//! The bounded log: a header with the number of bytes ever written (48 bits) and how the process that served the mount
//! ended (16 bits: its wait status plus one; 0 as long as it lives), then a ring of 64 KiB. `shim/log.rs` writes it,
//! sharing only this layout; this module reads it. After the ring is space for a note, for data that has to survive the
//! loss of every path to it: it can be read through the descriptor of any process that has the file open
//! ([`write_note`], [`read_note`]). After that are marks, one for each second in which something was written: when, and
//! how many bytes there were before. The newest 256 are kept.

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

/// Must agree with `shim/log.rs`.
const ENDED_SHIFT: u32 = 48;

/// Offset of the note.
const NOTE: u64 = HEADER as u64 + CAPACITY;

/// Offset of the marks, the same in `shim/log.rs`, and their size.
const MARKS: u64 = 256 * 1024;
const MARK: usize = 16;
const MARK_COUNT: usize = 256;

/// A note is text: it ends before the first NUL. (Older builds cut the file off after it.)
pub fn write_note(log: impl AsFd, note: &[u8]) -> Result<()> {
    if note.len() as u64 >= MARKS - NOTE {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    let note = [note, b"\0"].concat();
    rustix::io::retry_on_intr(|| rustix::io::pwrite(&log, &note, NOTE))?;
    Ok(())
}

pub fn read_note(path: &Path) -> Result<Vec<u8>> {
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(NOTE))?;
    let mut note = std::io::BufReader::new(file.take(MARKS - NOTE));
    let mut bytes = Vec::new();
    std::io::BufRead::read_until(&mut note, 0, &mut bytes)?;
    bytes.truncate(bytes.len() - usize::from(bytes.last() == Some(&0)));
    Ok(bytes)
}

/// The content of a log without its marks, for copying it: the space between is mostly a hole.
pub fn whole(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(NOTE).read_to_end(&mut bytes)?;
    bytes.resize(NOTE as usize, 0);
    bytes.extend(read_note(path)?);
    Ok(bytes)
}

/// How many bytes had been written before this second, since 1970. More is shown rather than less: without marks, 0.
pub fn written_before(mut log: &std::fs::File, second: u64) -> Result<u64> {
    log.seek(SeekFrom::Start(MARKS))?;
    let mut bytes = Vec::new();
    log.take((MARK * MARK_COUNT) as u64).read_to_end(&mut bytes)?;
    Ok(before(&bytes, second))
}

fn before(marks: &[u8], second: u64) -> u64 {
    let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    let mut marks: Vec<_> =
        marks.chunks_exact(MARK).map(|mark| (number(&mark[8..]), number(&mark[..8]))).filter(|(_, at)| *at > 0).collect();
    marks.sort_unstable();
    match marks.iter().position(|(_, at)| *at >= second) {
        // Earlier marks may have been overwritten.
        Some(0) => 0,
        Some(first) => marks[first].0,
        None if marks.is_empty() => 0,
        None => u64::MAX,
    }
}

/// How the process that served the mount ended: only the header is read.
pub fn ended(path: &Path) -> Result<Option<i32>> {
    let mut header = [0; HEADER];
    std::fs::File::open(path)?.read_exact(&mut header)?;
    Ok(ended_by(u64::from_ne_bytes(header)))
}

fn ended_by(header: u64) -> Option<i32> {
    ((header >> ENDED_SHIFT) as i32).checked_sub(1).filter(|status| *status >= 0)
}

impl Log {
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_from(&std::fs::File::open(path)?)
    }

    /// For an open file, which may have no name any more.
    pub fn read_from(mut file: &std::fs::File) -> Result<Self> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.take(NOTE).read_to_end(&mut bytes)?;
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
        let ended = ended_by(header);
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
    fn a_note_is_read_as_it_was_written_last() {
        let log = rustix::fs::memfd_create("log", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let path = std::path::PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&log)));
        // As older builds left it.
        std::fs::write(&path, [vec![0; NOTE as usize], b"{\"long\": 1}".to_vec()].concat()).unwrap();
        assert_eq!(read_note(&path).unwrap(), b"{\"long\": 1}");
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        rustix::io::pwrite(&file, b"marks", MARKS).unwrap();
        for note in [&b"{}"[..], &vec![b'x'; 100_000], b"{\"a\": 2}"] {
            write_note(&file, note).unwrap();
            assert_eq!(read_note(&path).unwrap(), note);
        }
        assert_eq!(whole(&path).unwrap().len(), NOTE as usize + 8);
        assert!(write_note(&file, &vec![b'x'; MARKS as usize]).is_err(), "it would overwrite the marks");
        assert!(std::fs::read(&path).unwrap().ends_with(b"marks"));
    }

    #[test]
    fn marks_say_what_was_written_since() {
        let marks = |rows: &[(u64, u64)]| rows.iter().flat_map(|(at, before)| [at.to_ne_bytes(), before.to_ne_bytes()].concat()).collect();
        let three: Vec<u8> = marks(&[(100, 0), (105, 40), (200, 90), (0, 0)]);
        // As after the ring of marks was full: the newest is not the last.
        let turned: Vec<u8> = marks(&[(300, 500), (100, 100), (200, 200)]);
        let rows = [(&three, 99, 0), (&three, 101, 40), (&three, 105, 40), (&three, 106, 90), (&three, 201, u64::MAX), (&turned, 150, 200)];
        for (marks, second, expected) in rows {
            assert_eq!(before(marks, second), expected, "{second}");
        }
        assert_eq!(before(&turned, 50), 0, "what was written before the oldest mark may be newer than that, too");
        assert_eq!(before(b"", 50), 0, "an older build has left none");
    }

    #[test]
    fn nothing_written_is_empty() {
        assert_eq!(Log::decode(b""), Log::default());
    }
}
