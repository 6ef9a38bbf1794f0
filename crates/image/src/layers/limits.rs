//! Limits on the resources that an image may use. Counted while it streams in: a bomb is refused when it reaches the limit, not when it is
//! complete.

use crate::layers::values::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// Of all layers together, unpacked: content, headers, and the holes of sparse files.
    pub bytes: u64,
    /// Of all layers together.
    pub entries: u64,
    pub layers: u64,
    /// Of one entry's extended headers: long names, attributes, the map of a sparse file.
    pub header_bytes: u64,
    /// Of one extended attribute.
    pub xattr_bytes: u64,
    pub path_bytes: u64,
    /// Depth of directories.
    pub nesting: u64,
}

impl Default for Limits {
    /// A root filesystem with a mount client has some hundred megabytes; a bomb has more.
    fn default() -> Self {
        Self {
            bytes: 16 << 30,
            entries: 1_000_000,
            layers: 512,
            header_bytes: 1 << 20,
            xattr_bytes: 64 << 10,
            path_bytes: 4095,
            nesting: 256,
        }
    }
}

/// What is left of the limits.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) limits: Limits,
    bytes: u64,
    entries: u64,
    layers: u64,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, bytes: 0, entries: 0, layers: 0 }
    }

    pub(crate) fn spend_bytes(&mut self, bytes: u64) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(bytes);
        within(self.bytes, self.limits.bytes, "bytes")
    }

    pub(crate) fn spend_entry(&mut self) -> Result<(), Error> {
        self.entries += 1;
        within(self.entries, self.limits.entries, "entries")
    }

    pub(crate) fn spend_layer(&mut self) -> Result<(), Error> {
        self.layers += 1;
        within(self.layers, self.limits.layers, "layers")
    }

    pub(crate) fn bytes_left(&self) -> u64 {
        self.limits.bytes.saturating_sub(self.bytes)
    }

    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }
}

pub(crate) fn within(amount: u64, limit: u64, what: &'static str) -> Result<(), Error> {
    if amount > limit { Err(Error::Limit { what, limit }) } else { Ok(()) }
}
