//! In: a package file. Out: its archive of files; its scripts are ignored.
//!
//! deb(5): an ar archive of `debian-binary`, `control.tar…` and `data.tar…`.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

/// A package file in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deb {
    /// For display: name and version.
    pub name: String,
    pub file: PathBuf,
    pub size: u64,
    pub sha256: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("{0:?} cannot be read")]
    Read(PathBuf, #[source] io::Error),
    #[error("{0:?} is not the file that the archive lists: it was changed or cut off, and is removed")]
    Changed(PathBuf),
    #[error("it is not in Debian's format: {0}")]
    Format(&'static str),
    #[error("its files are compressed in an unknown format: {0}")]
    Compression(String),
}

/// Decompressor limits, as a package could demand gigabytes; the largest that dpkg makes demands 65 MB (`xz -9`).
const XZ_MEMORY: u64 = 80 << 20;
const ZSTD_WINDOW_LOG: u32 = 26;

impl Deb {
    /// The files, as a plain tar archive. The whole package is verified first, however it came into the cache.
    pub fn data(&self) -> Result<Box<dyn Read + Send>, Problem> {
        let unreadable = |error| Problem::Read(self.file.clone(), error);
        let mut file = File::open(&self.file).map_err(unreadable)?;
        if !is_whole(&mut file, self.size, &self.sha256).map_err(unreadable)? {
            // So that the next try fetches it again.
            let _ = std::fs::remove_file(&self.file);
            return Err(Problem::Changed(self.file.clone()));
        }
        let member = data_member(&mut file).map_err(unreadable)??;
        file.seek(SeekFrom::Start(member.offset)).map_err(unreadable)?;
        let packed = BufReader::with_capacity(128 * 1024, file.take(member.size));
        Ok(match member.compression {
            Compression::None => Box::new(packed),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
            Compression::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED);
                Box::new(liblzma::bufread::XzDecoder::new_stream(packed, stream.map_err(|error| unreadable(error.into()))?))
            }
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(packed).map_err(unreadable)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(unreadable)?;
                Box::new(decoder)
            }
        })
    }
}

/// Whether size and checksum match.
pub fn is_whole(file: &mut File, size: u64, sha256: &str) -> io::Result<bool> {
    if file.metadata()?.len() != size {
        return Ok(false);
    }
    Ok(sha256_of(file)? == sha256)
}

pub fn sha256_of(reader: &mut impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    offset: u64,
    size: u64,
    compression: Compression,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Xz,
    Zstd,
}

/// The position of the archive of files in the package.
fn data_member(file: &mut (impl Read + io::Seek)) -> io::Result<Result<Member, Problem>> {
    const MAGIC: &[u8; 8] = b"!<arch>\n";
    const HEADER: u64 = 60;
    file.seek(SeekFrom::Start(0))?;
    let mut magic = [0; 8];
    if file.read_exact(&mut magic).is_err() || magic != *MAGIC {
        return Ok(Err(Problem::Format("it is not an ar archive")));
    }
    let mut at = MAGIC.len() as u64;
    loop {
        file.seek(SeekFrom::Start(at))?;
        let mut header = [0; HEADER as usize];
        if file.read_exact(&mut header).is_err() {
            return Ok(Err(Problem::Format("it has no data archive")));
        }
        let text = |from: usize, to: usize| std::str::from_utf8(&header[from..to]).unwrap_or_default().trim_end();
        let (name, Ok(size)) = (text(0, 16).trim_end_matches('/'), text(48, 58).parse::<u32>()) else {
            return Ok(Err(Problem::Format("a member has no size")));
        };
        let (offset, size) = (at + HEADER, u64::from(size));
        if let Some(ending) = name.strip_prefix("data.tar") {
            let compression = match ending {
                "" => Compression::None,
                ".gz" => Compression::Gzip,
                ".xz" => Compression::Xz,
                ".zst" => Compression::Zstd,
                other => return Ok(Err(Problem::Compression(other.escape_default().to_string()))),
            };
            return Ok(Ok(Member { offset, size, compression }));
        }
        // Members are aligned to even offsets.
        at = offset + size + size % 2;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = b"!<arch>\n".to_vec();
        for (name, content) in members {
            archive.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100644, content.len()).into_bytes());
            archive.extend(*content);
            archive.resize(archive.len().next_multiple_of(2), b'\n');
        }
        archive
    }

    #[test]
    fn finds_the_files() {
        let table = [("data.tar.xz", Compression::Xz), ("data.tar.zst/", Compression::Zstd), ("data.tar", Compression::None)];
        for (name, compression) in table {
            let archive = ar(&[("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), (name, b"files")]);
            let member = data_member(&mut Cursor::new(&archive)).unwrap().unwrap();
            let (from, to) = (member.offset as usize, (member.offset + member.size) as usize);
            assert_eq!((&archive[from..to], member.compression), (&b"files"[..], compression), "{name}");
        }
    }

    #[test]
    fn refuses_what_is_no_package() {
        let mut no_size = ar(&[("debian-binary", b"2.0\n")]);
        no_size[8 + 48] = b'-';
        let table = [
            b"".to_vec(),
            b"PK\x03\x04".to_vec(),
            b"!<arch>\n".to_vec(),
            ar(&[("debian-binary", b"2.0\n")]),
            no_size,
            ar(&[("data.tar.lzma", b"")]),
        ];
        for (number, archive) in table.iter().enumerate() {
            assert!(data_member(&mut Cursor::new(archive)).unwrap().is_err(), "{number}");
        }
    }
}
