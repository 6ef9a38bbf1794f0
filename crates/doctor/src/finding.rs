//! A finding: what was checked, the verdict, and the remedy.

use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub subject: String,
    pub verdict: Verdict,
    pub finding: String,
    /// What to do about it.
    #[serde(rename = "do")]
    pub remedy: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Good,
    /// Works, but with restrictions.
    Warning,
    /// Mounts will fail.
    Bad,
}

impl Finding {
    pub fn good(subject: &str, finding: impl Into<String>) -> Self {
        Self { subject: subject.to_owned(), verdict: Verdict::Good, finding: finding.into(), remedy: None }
    }

    pub fn warning(subject: &str, finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { subject: subject.to_owned(), verdict: Verdict::Warning, finding: finding.into(), remedy: Some(remedy.into()) }
    }

    pub fn bad(subject: &str, finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { subject: subject.to_owned(), verdict: Verdict::Bad, finding: finding.into(), remedy: Some(remedy.into()) }
    }
}
