//! Types that the modules of unpacking share: how archives are read, the result, and the errors.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read it")]
    Read(#[source] io::Error),
    #[error("not a readable archive: {0}")]
    Malformed(&'static str),
    #[error("entry {path:?}")]
    Entry { path: PathBuf, source: io::Error },
    #[error("more than {limit} {what}")]
    Limit { what: &'static str, limit: u64 },
    #[error("cannot write to {path:?}")]
    Root { path: PathBuf, source: io::Error },
}

/// How the entries of an archive are interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// A layer of an image: `.wh.` names hide what the layers below hold.
    Layer,
    /// A whole root filesystem: every name is a name.
    Plain,
    /// A package of a distribution: a directory in it may be a link to a directory here, as with merged /usr.
    Package,
}

/// The totals of all layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Content of files.
    pub bytes: u64,
    pub entries: u64,
    /// Devices, FIFOs and unknown types.
    pub ignored: u64,
}
