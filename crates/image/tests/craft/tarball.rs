//! Archives that no honest program writes.

#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) const FILE: u8 = b'0';
pub(crate) const HARD_LINK: u8 = b'1';
pub(crate) const SYMLINK: u8 = b'2';
pub(crate) const CHARACTER_DEVICE: u8 = b'3';
pub(crate) const BLOCK_DEVICE: u8 = b'4';
pub(crate) const DIRECTORY: u8 = b'5';

/// A header as it will be, byte for byte.
#[derive(Clone)]
pub(crate) struct Header(pub(crate) [u8; 512]);

impl Header {
    pub(crate) fn new(kind: u8, name: impl AsRef<[u8]>) -> Self {
        let mut header = Self([0; 512]);
        header.set(0, name.as_ref());
        header.set(100, b"0000755\0");
        header.set(108, b"0000000\0");
        header.set(116, b"0000000\0");
        header.set(124, b"00000000000\0");
        header.set(136, b"14000000000\0");
        header.0[156] = kind;
        header.set(257, b"ustar\x0000");
        header
    }

    pub(crate) fn set(&mut self, offset: usize, bytes: &[u8]) -> &mut Self {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
        self
    }

    pub(crate) fn link(mut self, target: impl AsRef<[u8]>) -> Self {
        self.set(157, target.as_ref());
        self
    }

    pub(crate) fn mode(mut self, mode: u32) -> Self {
        self.set(100, format!("{mode:07o}\0").as_bytes());
        self
    }

    pub(crate) fn size(mut self, size: u64) -> Self {
        self.set(124, format!("{size:011o}\0").as_bytes());
        self
    }

    pub(crate) fn gnu(mut self) -> Self {
        self.set(257, b"ustar  \0");
        self
    }

    /// With its checksum, and what follows it.
    pub(crate) fn then(mut self, content: &[u8]) -> Vec<u8> {
        self.set(148, b"        ");
        let sum: u32 = self.0.iter().map(|byte| u32::from(*byte)).sum();
        self.set(148, format!("{sum:06o}\0 ").as_bytes());
        let mut bytes = self.0.to_vec();
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }
}

pub(crate) fn file(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    Header::new(FILE, name).size(content.len() as u64).then(content)
}

pub(crate) fn directory(name: impl AsRef<[u8]>) -> Vec<u8> {
    Header::new(DIRECTORY, name).then(b"")
}

pub(crate) fn symlink(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Vec<u8> {
    Header::new(SYMLINK, name).link(target).then(b"")
}

pub(crate) fn hard_link(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Vec<u8> {
    Header::new(HARD_LINK, name).link(target).then(b"")
}

/// GNU's way to give the next entry a longer name.
pub(crate) fn long_name(name: impl AsRef<[u8]>) -> Vec<u8> {
    let name = name.as_ref();
    Header::new(b'L', "././@LongLink").size(name.len() as u64).gnu().then(name)
}

/// POSIX's way to give the next entry further fields.
pub(crate) fn pax<V: AsRef<[u8]>>(records: &[(&str, V)]) -> Vec<u8> {
    let mut content = Vec::new();
    for (key, value) in records {
        let value = value.as_ref();
        let rest = key.len() + value.len() + 3;
        let mut length = rest + 1;
        while length != rest + length.to_string().len() {
            length = rest + length.to_string().len();
        }
        content.extend_from_slice(format!("{length} {key}=").as_bytes());
        content.extend_from_slice(value);
        content.push(b'\n');
    }
    raw_pax(&content)
}

pub(crate) fn raw_pax(content: &[u8]) -> Vec<u8> {
    Header::new(b'x', "PaxHeaders/x").size(content.len() as u64).then(content)
}

/// A whole archive.
pub(crate) fn archive(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = parts.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}
