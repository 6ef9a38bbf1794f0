//! Why a demo ended early.

use std::process::ExitCode;

use shorefast_engine::{Error, Kind};

use crate::report;

/// Why the demo did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Engine(#[from] Error),
    #[error("{what}: {source}")]
    Step { what: String, source: std::io::Error },
}

impl From<shorefast_image::Error> for Failure {
    fn from(error: shorefast_image::Error) -> Self {
        Self::Engine(error.into())
    }
}

impl Failure {
    /// Says it, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Self::Engine(error) => report::failure(error),
            Self::Step { .. } => {
                report::say(&format!("shorefast demo: {self}"));
                ExitCode::from(report::exit_code(Kind::Failed))
            }
        }
    }
}

pub fn failed(what: &str, source: std::io::Error) -> Failure {
    Failure::Step { what: what.to_owned(), source }
}
