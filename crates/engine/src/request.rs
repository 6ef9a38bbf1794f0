//! What somebody wants mounted. Every front makes one of these, and nothing else.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::mode::Mode;

#[derive(Clone, Debug)]
pub struct Request {
    pub fstype: Option<String>,
    pub source: OsString,
    pub target: PathBuf,
    pub options: String,
    /// A file or pipe that holds the secret (password, key): read at launch, never before.
    pub secret: Option<PathBuf>,
    /// What mount(8) tells its helpers besides options.
    pub flags: Vec<HelperFlag>,
    pub client: ClientChoice,
    /// Instead of the definition's image.
    pub image: Option<String>,
    /// Instead of the definition's container; means mode exec.
    pub container: Option<String>,
    /// Instead of the definition's mode.
    pub mode: Option<Mode>,
    /// A resolv.conf for the client instead of the host's.
    pub name_servers: Option<PathBuf>,
    /// The mount namespace in which the target is, if it is not the caller's: the path of a descriptor.
    pub namespace: Option<PathBuf>,
    pub timeout: Duration,
}

/// For a client whose command has `{flags}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperFlag {
    /// Unknown options are no errors.
    Sloppy,
    Verbose,
}

impl HelperFlag {
    pub fn word(self) -> &'static str {
        match self {
            Self::Sloppy => "-s",
            Self::Verbose => "-v",
        }
    }
}

/// How the client definition is found.
#[derive(Clone, Debug)]
pub enum ClientChoice {
    /// The one that lists the type.
    ByType,
    Named(String),
    File(PathBuf),
}

pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
