//! Compressed or not is told by the first bytes, never by the name.

use std::io::{self, BufReader, Read, Seek as _};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The file's plain bytes.
pub fn reader(mut file: std::fs::File) -> io::Result<Box<dyn Read>> {
    let mut start = [0u8; 4];
    let mut n = 0;
    while n < start.len() {
        match file.read(&mut start[n..])? {
            0 => break,
            more => n += more,
        }
    }
    file.rewind()?;
    let file = BufReader::with_capacity(256 * 1024, file);
    Ok(match &start[..n] {
        start if start.starts_with(GZIP) => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        start if start.starts_with(ZSTD) => Box::new(zstd::stream::read::Decoder::with_buffer(file)?),
        _ => Box::new(file),
    })
}
