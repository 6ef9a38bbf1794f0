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

    /// All of it on one line of at most about so many bytes. The hint is what helps most: it stays whole.
    pub fn line(&self, longest: usize) -> String {
        let mut text = self.message.clone();
        for line in self.refused.iter().chain(&self.helper) {
            text.push_str("; ");
            text.push_str(line);
        }
        let hint = self.hint.as_ref().map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
        let room = longest.saturating_sub(hint.len());
        if text.len() > room {
            let end = (0..=room.saturating_sub(3)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
            text.push('…');
        }
        text + &hint
    }

    /// Whether a mount that is there counts as the volume asked for. A client's definition and image may change while its volumes live.
    pub fn is_same_volume(&self) -> bool {
        let is_later = |difference: &Difference| matches!(difference, Difference::Client | Difference::Image);
        self.kind == Kind::AlreadySame || self.kind == Kind::AlreadyDifferent && self.differs.iter().all(is_later)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_length_and_keeps_its_hint() {
        let failure = |message: &str| Failure {
            step: Step::Serve,
            kind: Kind::Client,
            message: message.to_owned(),
            hint: Some("do this".to_owned()),
            helper: vec!["the helper's line".to_owned()],
            refused: Vec::new(),
            differs: Vec::new(),
        };
        assert_eq!(failure("it failed").line(1000), "it failed; the helper's line (hint: do this)");
        let long = failure(&"ü".repeat(2000)).line(1000);
        assert!(long.len() <= 1003 && long.ends_with("… (hint: do this)"), "{long}");
    }
}
