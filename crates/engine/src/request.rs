//! What a caller wants mounted. Every front produces this type and passes nothing else to the engine.

use std::collections::BTreeMap;
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
    #[serde(default)]
    pub secret_file: SecretFile,
    /// More secrets, by the name of the option that the client's definition knows them by. Read like `secret`.
    #[serde(default)]
    pub secrets: BTreeMap<String, PathBuf>,
    /// What the caller calls the mount, such as a volume's id. Kept in the record; a mount with another label is another one.
    #[serde(default)]
    pub label: Option<String>,
    /// The group that files should belong to, as far as the client can be told.
    #[serde(default)]
    pub group: Option<u32>,
    #[serde(default)]
    pub author: Author,
    /// Flags that mount(8) passes to its helpers besides options.
    pub flags: Vec<HelperFlag>,
    pub client: ClientChoice,
    /// Overrides the definition's image.
    pub image: Option<String>,
    /// Overrides the definition's container; implies mode exec.
    pub container: Option<String>,
    /// Overrides the definition's mode.
    pub mode: Option<Mode>,
    /// A resolv.conf for the client instead of the host's.
    #[serde(with = "text::optional")]
    pub name_servers: Option<PathBuf>,
    /// The target's mount namespace, if it is not the caller's: the path of a descriptor.
    #[serde(with = "text::optional")]
    pub namespace: Option<PathBuf>,
    /// What to do if the target already has a mount of ours.
    pub existing: Existing,
    /// Counted from when the image is available.
    pub timeout: Duration,
    /// For fetching the image; `None`: unlimited.
    pub image_timeout: Option<Duration>,
}

impl Request {
    /// Leaves every choice to the client's definition.
    pub fn new(source: impl Into<OsString>, target: impl Into<PathBuf>) -> Self {
        Self {
            fstype: None,
            source: source.into(),
            target: target.into(),
            options: String::new(),
            secret: None,
            secret_file: SecretFile::default(),
            secrets: BTreeMap::new(),
            label: None,
            group: None,
            author: Author::Administrator,
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

/// Who wrote the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Author {
    /// Somebody who may read every file of the host.
    #[default]
    Administrator,
    /// Somebody who may only use what the administrator offers: no file or path of the host, no client that is not for them.
    Guest,
}

/// Whose the file of a secret may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecretFile {
    /// Whoever names it hands it over.
    #[default]
    OfCaller,
    /// Its name was written down, for mounts to come: only root can read it or put another in its place.
    OfRoot,
}

/// For a client whose command has `{flags}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HelperFlag {
    /// Unknown options are not errors.
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

/// What to do if a live mount of ours is at the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Existing {
    /// Fail, and report whether it is the same mount.
    #[default]
    Refuse,
    /// Mount on top of it.
    Cover,
}

pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
