//! In: a file. Out: its decompressed bytes. The compression is detected by the first bytes, never by a name or a media type.

use std::io::{self, BufRead, Read};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];

/// Limits for hostile archives, which could demand gigabytes of memory; what registries serve needs 8 MiB.
const ZSTD_WINDOW_LOG: u32 = 25;
const XZ_MEMORY: u64 = 48 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
    Xz,
}

impl Compression {
    pub fn of(start: &[u8]) -> Self {
        match start {
            _ if start.starts_with(GZIP) => Self::Gzip,
            _ if start.starts_with(ZSTD) => Self::Zstd,
            _ if start.starts_with(XZ) => Self::Xz,
            _ => Self::None,
        }
    }
}

/// The plain bytes of `file`, and how they were compressed.
pub fn reader<'a>(mut file: impl BufRead + Send + 'a) -> io::Result<(Compression, Box<dyn Read + Send + 'a>)> {
    // One buffer is more than enough: an archive shorter than a magic number is not an archive.
    let compression = Compression::of(file.fill_buf()?);
    let plain: Box<dyn Read + Send + 'a> = match compression {
        Compression::None => Box::new(file),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(file)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
        Compression::Xz => {
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(file, stream))
        }
    };
    Ok((compression, plain))
}
