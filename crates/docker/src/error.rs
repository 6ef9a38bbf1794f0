//! Errors of a call, with the text that the container engine shows its user.

use std::io;
use std::path::{Path, PathBuf};

use shorefast_engine::error::Failure;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("this is no request of the volume plugin protocol: {0}")]
    Malformed(String),
    #[error("there is no {0:?} in the volume plugin protocol")]
    UnknownCall(String),
    #[error(
        "{0:?} cannot be the name of a volume or user: letters, digits, '_', '.' and '-', the first a letter or digit, at most 255 of them"
    )]
    Name(String),
    #[error("there is no volume {0:?}")]
    UnknownVolume(String),
    #[error("there is no option {key:?}{}; there are {}", meant(*nearest), known.join(", "))]
    UnknownOption { key: String, nearest: Option<&'static str>, known: &'static [&'static str] },
    #[error("the option {key:?} is missing: {example}")]
    MissingOption { key: &'static str, example: &'static str },
    #[error("the option {key:?} is too long, or has a NUL")]
    Value { key: String },
    #[error(
        "{what} looks like a secret, and options are kept and shown: put it alone into a file that only root can read, and pass -o secret-file=PATH"
    )]
    Secret { what: String },
    #[error("there is a volume {name:?} with other options: {} (hint: remove it first, or choose another name)", differs.join(", "))]
    Exists { name: String, differs: Vec<String> },
    #[error("volume {name:?} is in use: mounted for {users} container(s)")]
    InUse { name: String, users: usize },
    #[error("volume {name:?}: {line}")]
    Operation { name: String, line: String },
    #[error("volume {0:?} is busy with another request")]
    Busy(String),
    #[error("the caller is gone")]
    CallerGone,
    #[error("cannot keep volumes in {path:?}: {source}")]
    State { path: PathBuf, source: io::Error },
    #[error("a thread of the plugin has failed: {0}")]
    Internal(String),
}

/// The longest error text.
const LONGEST: usize = 2000;

impl Error {
    pub(crate) fn of_worker(name: &str, failure: &Failure) -> Self {
        Self::Operation { name: name.to_owned(), line: failure.line(LONGEST) }
    }

    pub(crate) fn state(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::State { path: path.to_owned(), source }
    }
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!(", did you mean {nearest:?}?")).unwrap_or_default()
}
