//! The first layer of an image, before any package: directories, and the links of a merged /usr.

use std::io;

use crate::rules;

/// A plain tar archive.
pub fn layer(architecture: &str) -> io::Result<Vec<u8>> {
    let mut layer = Layer::new();
    for directory in ["etc/", "usr/", "var/", "var/cache/", "var/lib/", "var/log/"] {
        layer.directory(directory)?;
    }
    for top in rules::merged(architecture) {
        layer.directory(&format!("usr/{top}/"))?;
        layer.link(top, &format!("usr/{top}"))?;
    }
    layer.finish()
}

/// An archive of generated files. All belong to root and have the same time stamp, so that the result is reproducible.
pub(crate) struct Layer {
    archive: tar::Builder<Vec<u8>>,
}

impl Layer {
    pub(crate) fn new() -> Self {
        Self { archive: tar::Builder::new(Vec::new()) }
    }

    pub(crate) fn directory(&mut self, path: &str) -> io::Result<()> {
        let mut header = header(tar::EntryType::Directory, 0o755, 0);
        self.archive.append_data(&mut header, path, io::empty())
    }

    pub(crate) fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let mut header = header(tar::EntryType::Regular, mode, content.len() as u64);
        self.archive.append_data(&mut header, path, content)
    }

    pub(crate) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        let mut header = header(tar::EntryType::Symlink, 0o777, 0);
        self.archive.append_link(&mut header, path, target)
    }

    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        self.archive.into_inner()
    }
}

fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header
}
