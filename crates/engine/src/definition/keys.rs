//! The values of a definition's keys.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use shorefast_sandbox::spec::{Content, File, SecretForm};

/// How the client gets its secret: always in a separate file, never as an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretWay {
    /// Options whose value is the secret: removed from the helper's arguments.
    pub from_options: Vec<String>,
    /// The option that tells the helper the path of the file.
    pub to_option: Option<String>,
    /// The path at which the helper looks by default.
    pub to_file: Option<PathBuf>,
    pub form: SecretForm,
    /// Options that come with a secret and are none, such as the name of its user.
    pub with_options: Vec<String>,
}

/// A small file: its content, or that with a mode.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Provided {
    Text(String),
    WithMode(ProvidedFile),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProvidedFile {
    pub content: String,
    /// Octal, such as "0700".
    pub mode: String,
}

impl Provided {
    pub fn content(&self) -> Content {
        match self {
            Self::Text(text) => Content::Text(text.clone()),
            // The mode was checked with the definition.
            Self::WithMode(file) => Content::TextWithMode(file.content.clone(), parse_mode(&file.mode).unwrap_or(0o600)),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Self::Text(_) => Ok(()),
            Self::WithMode(file) => parse_mode(&file.mode).map(drop),
        }
    }
}

/// Permissions only: no set-uid, set-gid or sticky bit.
fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("key `provide`: {text:?} is no mode: write \"0600\" or \"0700\""))
}

/// What the mount's source is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A name that only the client understands.
    #[default]
    Remote,
    /// A host path that is visible to the client.
    Path,
}

/// How a client writes to the file that is its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceWrites {
    /// It writes into the file.
    InPlace,
    /// It writes a new file beside it and renames that: the client gets to see the source's directory.
    Replace,
}

#[derive(Clone, Copy, Debug)]
pub struct Namespaces {
    pub pid: Namespace,
    pub user: Namespace,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Namespace {
    #[default]
    Private,
    Host,
}

/// Whether people who are no administrators may have mounts of this client ([`Author::Guest`](crate::request::Author)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Guests {
    #[default]
    Allowed,
    Refused,
}

/// How the helper behaves once it has mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Daemon {
    /// It exits; the daemon that serves was forked.
    #[default]
    Forks,
    /// It serves itself and exits at the end.
    Foreground,
}

pub(super) fn check_provided(path: &Path, key: &str) -> Result<(), String> {
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let file = File { inside: path.to_owned(), content: Content::Text(String::new()) };
    if path.is_absolute() && is_plain && (file.is_ours() || path.starts_with("/etc")) {
        Ok(())
    } else {
        Err(format!("key `{key}`: {path:?} is not an absolute path below /etc, /root, /run, /tmp or /var/lib"))
    }
}

/// `512M`, `1G`, `65536`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.strip_suffix(['K', 'M', 'G', 'T']) {
        Some(digits) => (digits, 10 * (1 + "KMGT".find(&text[digits.len()..]).unwrap_or(0))),
        None => (text, 0),
    };
    let number: Option<u64> = digits.parse().ok();
    let bytes = number.and_then(|number| number.checked_mul(1 << shift)).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| format!("{text:?} is no size: write 65536, 512M or 1G"))
}
