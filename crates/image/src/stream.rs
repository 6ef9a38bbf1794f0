//! In: a reader of a layer as distributed. Out: its uncompressed content, and at the end whether it matched its digests.
//!
//! A separate thread decompresses and hashes while the caller writes files. A few buffers are in use at any time, however large the blob
//! is.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use sha2::{Digest as _, Sha256};

use crate::compression::{self, Compression};
use crate::digest::Digest;

const BUFFER: usize = 256 * 1024;
const BUFFERS: usize = 8;

/// What is known of a blob before it is read. `None`: not known, not checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// Of the blob as it is.
    pub digest: Option<Digest>,
    pub size: Option<u64>,
    /// Of its uncompressed content.
    pub diff_id: Option<Digest>,
}

/// The actual digests and size of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub digest: Digest,
    pub size: u64,
    pub diff_id: Digest,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read it")]
    Read(#[source] io::Error),
    #[error("its digest is {found}, not {expected}")]
    Digest { expected: Digest, found: Digest },
    #[error("its content's digest is {found}, not {expected}")]
    DiffId { expected: Digest, found: Digest },
    #[error("it has {found} bytes, not {expected}")]
    Size { expected: u64, found: u64 },
}

#[derive(Debug)]
pub struct Stream {
    filled: Receiver<io::Result<Vec<u8>>>,
    empty: Sender<Vec<u8>>,
    current: Vec<u8>,
    position: usize,
    worker: Option<thread::JoinHandle<Option<Found>>>,
    expected: Expected,
}

impl Stream {
    pub fn start(blob: impl Read + Send + 'static, expected: Expected) -> io::Result<Self> {
        let (filled_sender, filled) = sync_channel(BUFFERS);
        let (empty, empty_receiver) = channel();
        for _ in 0..BUFFERS {
            let _ = empty.send(Vec::new());
        }
        let work = move || decompress(blob, expected, &filled_sender, &empty_receiver);
        let worker = thread::Builder::new().name("layer".into()).stack_size(256 * 1024).spawn(work)?;
        Ok(Self { filled, empty, current: Vec::new(), position: 0, worker: Some(worker), expected })
    }

    /// Reads the rest, at most `rest` bytes of it, and compares. Nothing of the blob may be used before this succeeded.
    pub fn finish(mut self, rest: u64) -> Result<Found, Error> {
        let mut left = rest;
        loop {
            let ready = self.fill_buf().map_err(Error::Read)?.len();
            if ready == 0 {
                break;
            }
            left = left.checked_sub(ready as u64).ok_or_else(|| Error::Read(too_long()))?;
            self.consume(ready);
        }
        let found = self.worker.take().and_then(|worker| worker.join().ok()).flatten();
        let found = found.ok_or_else(|| Error::Read(io::ErrorKind::UnexpectedEof.into()))?;
        let Expected { digest, size, diff_id } = self.expected;
        if let Some(expected) = size.filter(|size| *size != found.size) {
            return Err(Error::Size { expected, found: found.size });
        }
        if let Some(expected) = digest.filter(|digest| *digest != found.digest) {
            return Err(Error::Digest { expected, found: found.digest });
        }
        if let Some(expected) = diff_id.filter(|diff_id| *diff_id != found.diff_id) {
            return Err(Error::DiffId { expected, found: found.diff_id });
        }
        Ok(found)
    }
}

impl BufRead for Stream {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.position == self.current.len() {
            let Ok(next) = self.filled.recv() else { break };
            let used = std::mem::replace(&mut self.current, next?);
            self.position = 0;
            let _ = self.empty.send(used);
        }
        Ok(&self.current[self.position..])
    }

    fn consume(&mut self, amount: usize) {
        self.position = (self.position + amount).min(self.current.len());
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl Drop for Stream {
    /// The thread ends as soon as its receiver is gone, and is joined: the process may want to fork.
    fn drop(&mut self) {
        self.filled = sync_channel(0).1;
        self.empty = channel().0;
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

/// `None`: the receiver is gone, or the blob cannot be read, which the receiver was told.
fn decompress(
    blob: impl Read + Send,
    expected: Expected,
    filled: &SyncSender<io::Result<Vec<u8>>>,
    empty: &Receiver<Vec<u8>>,
) -> Option<Found> {
    let mut counted = Counted { blob, hash: Sha256::new(), size: 0, limit: expected.size };
    let result = pass_on(&mut counted, filled, empty).and_then(|passed| match passed {
        // Trailing data after the compressed stream belongs to the blob and its digest, too.
        Passed::All(plain) => io::copy(&mut counted, &mut io::sink()).map(|_| Passed::All(plain)),
        Passed::Unwanted => Ok(Passed::Unwanted),
    });
    match result {
        Ok(Passed::All(plain)) => {
            let (digest, size) = (Digest::finished(counted.hash), counted.size);
            Some(Found { digest, size, diff_id: plain.map_or(digest, Digest::finished) })
        }
        Ok(Passed::Unwanted) => None,
        Err(error) => {
            let _ = filled.send(Err(error));
            None
        }
    }
}

enum Passed {
    /// With the hash of the content, if it differs from the blob itself.
    All(Option<Sha256>),
    Unwanted,
}

fn pass_on(blob: &mut (impl Read + Send), filled: &SyncSender<io::Result<Vec<u8>>>, empty: &Receiver<Vec<u8>>) -> io::Result<Passed> {
    let (compression, mut plain) = compression::reader(BufReader::with_capacity(BUFFER, blob))?;
    let mut hash = (compression != Compression::None).then(Sha256::new);
    loop {
        let Ok(mut buffer) = empty.recv() else { return Ok(Passed::Unwanted) };
        buffer.resize(BUFFER, 0);
        let mut length = 0;
        while length < buffer.len() {
            match plain.read(&mut buffer[length..]) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if length == 0 {
            return Ok(Passed::All(hash));
        }
        buffer.truncate(length);
        if let Some(hash) = &mut hash {
            hash.update(&buffer);
        }
        if filled.send(Ok(buffer)).is_err() {
            return Ok(Passed::Unwanted);
        }
    }
}

/// Hashes and counts the bytes that pass; stops at the announced size.
struct Counted<R> {
    blob: R,
    hash: Sha256,
    size: u64,
    limit: Option<u64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.blob.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.size += count as u64;
        if self.limit.is_some_and(|limit| self.size > limit) {
            return Err(too_long());
        }
        Ok(count)
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is longer than announced")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn compressed(compression: Compression, content: &[u8]) -> Vec<u8> {
        match compression {
            Compression::None => content.to_vec(),
            Compression::Gzip => {
                let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                writer.write_all(content).unwrap();
                writer.finish().unwrap()
            }
            Compression::Zstd => zstd::encode_all(content, 1).unwrap(),
            Compression::Xz => {
                let mut writer = liblzma::write::XzEncoder::new(Vec::new(), 1);
                writer.write_all(content).unwrap();
                writer.finish().unwrap()
            }
        }
    }

    const ALL: [Compression; 4] = [Compression::None, Compression::Gzip, Compression::Zstd, Compression::Xz];

    #[test]
    fn content_and_digests_are_those_of_the_blob() {
        let content: Vec<u8> = (0..3 * BUFFER as u32).flat_map(u32::to_le_bytes).collect();
        for compression in ALL {
            let blob = compressed(compression, &content);
            let expected = Expected { digest: Some(Digest::of(&blob)), size: Some(blob.len() as u64), diff_id: Some(Digest::of(&content)) };
            let mut stream = Stream::start(io::Cursor::new(blob), expected).unwrap();
            let mut read = Vec::new();
            stream.read_to_end(&mut read).unwrap();
            assert!(read == content, "{compression:?}");
            stream.finish(0).unwrap();
        }
    }

    #[test]
    fn a_blob_that_is_not_what_was_announced_is_refused() {
        let content = vec![7; 100_000];
        let other = Some(Digest::of(b"other"));
        for compression in ALL {
            let blob = compressed(compression, &content);
            let size = blob.len() as u64;
            let rows = [
                ("digest", Expected { digest: other, ..Expected::default() }),
                ("content", Expected { diff_id: other, ..Expected::default() }),
                ("more bytes announced", Expected { size: Some(size + 1), ..Expected::default() }),
                ("fewer bytes announced", Expected { size: Some(size - 1), ..Expected::default() }),
            ];
            for (name, expected) in rows {
                let stream = Stream::start(io::Cursor::new(blob.clone()), expected).unwrap();
                assert!(stream.finish(u64::MAX).is_err(), "{compression:?}: {name}");
            }
        }
    }

    #[test]
    fn a_blob_that_ends_early_or_goes_on_is_refused() {
        for compression in [Compression::Gzip, Compression::Zstd, Compression::Xz] {
            let blob = compressed(compression, &[7; 100_000]);
            let cut = blob[..blob.len() - 3].to_vec();
            assert!(Stream::start(io::Cursor::new(cut), Expected::default()).unwrap().finish(u64::MAX).is_err(), "{compression:?} cut");
            assert!(Stream::start(io::Cursor::new(blob), Expected::default()).unwrap().finish(99_999).is_err(), "{compression:?} long");
        }
    }

    #[test]
    fn a_stream_that_is_dropped_ends_its_thread() {
        drop(Stream::start(io::repeat(0), Expected::default()).unwrap());
    }
}
