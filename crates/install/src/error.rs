//! Errors, and their remedies.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path:?} exists and was not installed by Shorefast")]
    Foreign { path: PathBuf },
    #[error("{path:?} was changed since it was installed")]
    Changed { path: PathBuf },
    #[error("no directory is both writable and mounted without noexec{}", reasons(.tried))]
    NoPlace { tried: Vec<(PathBuf, String)> },
    #[error("{directory:?} cannot hold the program: {reason}")]
    UnfitPlace { directory: PathBuf, reason: String },
    #[error("{directory:?}, where mount(8) looks for helpers, is not writable: {reason}")]
    HelpersImpossible { directory: PathBuf, reason: String },
    #[error("{name:?} is not the name of a filesystem type")]
    NotAType { name: String },
    #[error("a unit file cannot contain {text:?}")]
    NotForUnit { text: String },
    #[error("cannot {action} {path:?}")]
    File { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("cannot understand {path:?}, the list of installed files")]
    Manifest { path: PathBuf, source: serde_json::Error },
    #[error("nothing is installed{}", reasons(.looked))]
    NotInstalled { looked: Vec<(PathBuf, String)> },
    #[error("uninstalled, except {}: changed since the installation, and left in place", list(.paths))]
    Left { paths: Vec<PathBuf> },
}

impl Error {
    /// One line, when the user can act.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Foreign { path } => return Some(format!("move it away if it is not needed: mv {0} {0}.old", path.display())),
            Self::Changed { path } => {
                return Some(format!("keep the change elsewhere, then remove it: mv {0} {0}.changed", path.display()));
            }
            Self::NoPlace { .. } | Self::UnfitPlace { .. } => "name a directory on a writable filesystem without noexec: --to DIR",
            Self::HelpersImpossible { .. } => {
                "without helpers there are three ways: call `shorefast mount -t TYPE` itself; make the directory writable for a moment \
                 (mount -o remount,rw /usr); or add the helpers to the system image, e.g. as a systemd-sysext"
            }
            Self::NotAType { .. } => "--helpers takes names such as nfs,glusterfs",
            Self::NotForUnit { .. } => {
                "units cannot contain control characters, or spaces or backslashes at an end: call `shorefast mount` from a script"
            }
            Self::NotInstalled { .. } => "say where: --to DIR",
            Self::Left { .. } => "check it, and remove it by hand if it is not needed",
            Self::File { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => "run it as root",
            Self::File { .. } | Self::Manifest { .. } => return None,
        };
        Some(text.to_owned())
    }
}

pub(crate) fn failed(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.into();
    move |source| Error::File { action, path, source }
}

fn reasons(tried: &[(PathBuf, String)]) -> String {
    let reasons: Vec<_> = tried.iter().map(|(path, reason)| format!("{}: {reason}", path.display())).collect();
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
