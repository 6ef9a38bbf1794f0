use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("image reference {text:?}: {problem}")]
    Reference { text: String, problem: &'static str },
    #[error("cannot use {path:?} as an image")]
    Open { path: PathBuf, source: io::Error },
    #[error("{path:?} is no root filesystem: {problem}")]
    NotARoot { path: PathBuf, problem: &'static str },
    #[error("cannot unpack {archive:?}: entry {entry:?}")]
    Entry { archive: PathBuf, entry: PathBuf, source: io::Error },
    #[error("cannot unpack {archive:?}: not a readable archive")]
    Archive { archive: PathBuf, source: io::Error },
    #[error("cannot unpack {archive:?}: it holds more than {limit} {what}")]
    TooLarge { archive: PathBuf, limit: u64, what: &'static str },
    #[error("cannot write to the image store {path:?}")]
    Store { path: PathBuf, source: io::Error },
}

impl Error {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Reference { .. } => Some("use dir:/path/of/a/rootfs or tar:/path/of/a/rootfs.tar[.gz|.zst]"),
            Self::NotARoot { .. } => Some("an image is a whole root filesystem, for example made by mmdebstrap or `podman export`"),
            Self::Store { .. } => Some("choose another place with --root, or free some space"),
            Self::Open { .. } | Self::Entry { .. } | Self::Archive { .. } | Self::TooLarge { .. } => None,
        }
    }
}
