use std::path::PathBuf;

use crate::seen::Seen;
use crate::selector::{Malformed, Runtime, Selector};

/// Why there is no container to use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Selector(#[from] Malformed),
    #[error("{runtime} was not found (looked for {})", .looked_for.display())]
    Absent { runtime: Runtime, looked_for: PathBuf },
    #[error("{runtime} does not answer at {}", .at.display())]
    Silent { runtime: Runtime, at: PathBuf, source: std::io::Error },
    #[error("{runtime} refused the question: {answer}")]
    Refused { runtime: Runtime, answer: String },
    #[error("{runtime} gave an answer that cannot be understood: {problem}")]
    Nonsense { runtime: Runtime, problem: String },
    #[error("there is no container runtime on this host: neither Docker nor Podman nor containerd")]
    NoRuntime,
    #[error("there is no container {selector}{}", .failed.iter().map(|error| format!("; {error}")).collect::<String>())]
    Unknown { selector: Selector, failed: Vec<Error> },
    #[error("container {selector} does not run: {}", list(.seen))]
    Stopped { selector: Selector, seen: Vec<Seen> },
    #[error("{selector} means {} running containers: {}", .seen.len(), list(.seen))]
    Several { selector: Selector, seen: Vec<Seen> },
}

impl Error {
    /// One line, when the user can act.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Selector(_) => "a container is NAME or KEY=VALUE (a label), with docker:, podman: or containerd: before it if need be",
            Self::Absent { .. } | Self::Silent { .. } | Self::NoRuntime => "start the runtime, or use mode container, which needs none",
            Self::Refused { .. } | Self::Nonsense { .. } => "ask the runtime itself: docker ps, podman ps or ctr containers list",
            Self::Unknown { .. } => "docker ps, podman ps or ctr containers list show names and labels",
            Self::Stopped { .. } => "start the container, or use mode container, which needs none running",
            Self::Several { .. } => "use a label that only one has, or a name",
        }
    }
}

fn list(seen: &[Seen]) -> String {
    seen.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
