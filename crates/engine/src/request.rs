//! What a caller wants mounted. Every front makes one of these, and nothing else.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::mode::Mode;
use crate::text;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    pub fstype: Option<String>,
    #[serde(with = "text")]
    pub source: OsString,
    #[serde(with = "text")]
    pub target: PathBuf,
    pub options: String,
    /// A file or pipe that holds the secret (password, key): read at launch, never before.
    #[serde(with = "text::optional")]
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
    #[serde(with = "text::optional")]
    pub name_servers: Option<PathBuf>,
    /// The mount namespace in which the target is, if it is not the caller's: the path of a descriptor.
    #[serde(with = "text::optional")]
    pub namespace: Option<PathBuf>,
    /// Where the target is a mount of ours already.
    pub existing: Existing,
    /// From when the image is there.
    pub timeout: Duration,
    /// For getting the image; without one, it takes as long as it takes.
    pub image_timeout: Option<Duration>,
}

impl Request {
    /// With every choice left to the client's definition.
    pub fn new(source: impl Into<OsString>, target: impl Into<PathBuf>) -> Self {
        Self {
            fstype: None,
            source: source.into(),
            target: target.into(),
            options: String::new(),
            secret: None,
            flags: Vec::new(),
            client: ClientChoice::ByType,
            image: None,
            container: None,
            mode: None,
            name_servers: None,
            namespace: None,
            existing: Existing::Refuse,
            timeout: DEFAULT_TIMEOUT,
            image_timeout: None,
        }
    }
}

/// For a client whose command has `{flags}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientChoice {
    /// The one that lists the type.
    ByType,
    Named(String),
    File(PathBuf),
}

/// What to do about a live mount of ours at the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Existing {
    /// Fail, and say whether it is the same mount.
    #[default]
    Refuse,
    /// Mount on top of it.
    Cover,
}

pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
