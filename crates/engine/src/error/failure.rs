//! In: an error. Out: the same as a serializable value for another process.

use crate::difference::Difference;
use crate::error::{Error, Kind, Step, chain};
use crate::text;

/// An error as a value, for callers in other processes: they never have to parse its text.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Failure {
    pub step: Step,
    pub kind: Kind,
    /// The chain, on one line.
    pub message: String,
    pub hint: Option<String>,
    /// The helper's last lines.
    pub helper: Vec<String>,
    /// The client's calls that were not performed: refused by a rule or by the kernel, with the reason.
    pub refused: Vec<String>,
    /// For [`Kind::AlreadyDifferent`].
    pub differs: Vec<Difference>,
}

impl Failure {
    pub fn new(step: Step, kind: Kind, message: String) -> Self {
        Self { step, kind, message, hint: None, helper: Vec::new(), refused: Vec::new(), differs: Vec::new() }
    }
}

impl From<Error> for Box<Failure> {
    fn from(error: Error) -> Self {
        Self::new(Failure::from(&error))
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let first_line =
            |error: &dyn std::error::Error| text::printable_line(error.to_string().lines().next().unwrap_or_default()).into_owned();
        let said = error.said().cloned().unwrap_or_default();
        Self {
            step: error.step(),
            kind: error.kind(),
            message: chain(error, first_line),
            hint: error.hint(),
            helper: said.helper.iter().map(|line| text::printable_line(line).into_owned()).collect(),
            refused: said.refused.iter().map(|refusal| text::printable_line(&refusal.reason).into_owned()).collect(),
            differs: if let Error::Already { differs, .. } = error { differs.clone() } else { Vec::new() },
        }
    }
}
