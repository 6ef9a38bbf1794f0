//! What a row is and what can come of it.

use std::fmt;

use crate::sandbox::Sandbox;
use crate::sys::Answer;

/// One thing the client tries. `attempt` is written so that `Succeeded` always means harm.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// One line for a reader: what is tried, and where it is not plain, what would be the harm.
    pub(crate) what: &'static str,
    pub(crate) group: Group,
    pub(crate) attempt: fn(&Sandbox) -> Outcome,
}

/// How the driver on the host launches a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Group {
    /// Many of them in one launch: no row of these may end with a mount.
    Batch,
    /// One launch each: the row may spend the one mount that the client is allowed, exhaust the sandbox, or leave
    /// something behind, and the driver looks at the host afterwards.
    Alone,
    /// Like `Alone`, and the sandbox may die of it: that, too, is a refusal, if the host did not notice.
    Deadly,
    /// Like `Alone`, but the client exits with 1, so that the driver sees what Shorefast says about it.
    Failing,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Group::Batch => "batch",
            Group::Alone => "alone",
            Group::Deadly => "deadly",
            Group::Failing => "failing",
        })
    }
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The attempt came to nothing; how.
    Refused(String),
    /// Harm was done; what happened.
    Succeeded(String),
}

pub(crate) fn refused(how: impl Into<String>) -> Outcome {
    Outcome::Refused(how.into())
}

pub(crate) fn succeeded(what: impl Into<String>) -> Outcome {
    Outcome::Succeeded(what.into())
}

/// For calls whose success alone is the harm.
pub(crate) fn harm_if_ok<T>(answer: Answer<T>, what: impl Into<String>) -> Outcome {
    match answer {
        Ok(_) => succeeded(what),
        Err(errno) => refused(errno.to_string()),
    }
}

/// One attempt with many things, until one does harm.
pub(crate) fn any_of<T>(things: impl IntoIterator<Item = T>, attempt: impl FnMut(T) -> Outcome) -> Outcome {
    first_harm(things.into_iter().map(attempt))
}

/// The first outcome that is harm decides, otherwise the last refusal is shown.
pub(crate) fn first_harm(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    let mut tried = 0;
    let mut last = String::from("nothing to try");
    for outcome in outcomes {
        match outcome {
            Outcome::Succeeded(_) => return outcome,
            Outcome::Refused(how) => last = how,
        }
        tried += 1;
    }
    if tried > 1 { refused(format!("{tried} tried, the last: {last}")) } else { refused(last) }
}

/// For calls too dangerous to make in earnest. The kernel looks at permission before it looks at arguments, so
/// with arguments that cannot work any complaint but "not permitted" or "no such call" means that it would have been done.
pub(crate) fn harm_unless_forbidden<T>(answer: Answer<T>, what: &str) -> Outcome {
    match answer {
        Err(errno) if [libc::EPERM, libc::EACCES, libc::ENOSYS].contains(&errno.0) => refused(errno.to_string()),
        Err(errno) => succeeded(format!("{what}: permitted, only the arguments were wrong ({errno})")),
        Ok(_) => succeeded(what),
    }
}
