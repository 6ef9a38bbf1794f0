//! How an image is named.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// `dir:PATH`: a root filesystem that is already unpacked.
    Directory(PathBuf),
    /// `tar:PATH`: a root filesystem in one archive, plain or compressed.
    Tar(PathBuf),
}

impl Reference {
    pub fn path(&self) -> &Path {
        match self {
            Self::Directory(path) | Self::Tar(path) => path,
        }
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |problem| Error::Reference { text: text.to_owned(), problem };
        let (scheme, path) = text.split_once(':').ok_or_else(|| wrong("it has no scheme"))?;
        if path.is_empty() {
            return Err(wrong("it names no path"));
        }
        let path = std::path::absolute(path).map_err(|_| wrong("its path has no absolute form"))?;
        match scheme {
            "dir" => Ok(Self::Directory(path)),
            "tar" => Ok(Self::Tar(path)),
            _ => Err(wrong("this version knows dir: and tar:")),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(out, "dir:{}", path.display()),
            Self::Tar(path) => write!(out, "tar:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for text in ["dir:/srv/root fs", "tar:/srv/a.tar.zst"] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for text in ["", "sshfs", "dir:", "oci:/x", "zip:/x"] {
            assert!(text.parse::<Reference>().is_err(), "{text:?}");
        }
    }
}
