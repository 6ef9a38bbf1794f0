//! Errors of the broker, and refusals of calls.

use rustix::io::Errno;
use shorefast_sys as sys;

/// The broker itself cannot continue. A mistake of the client is a [`Refusal`], not an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot look into the sandbox's mount namespace")]
    View(#[source] sys::Error),
    #[error("cannot receive the client's calls")]
    Receive(#[source] sys::Error),
    #[error("the client mounted type {fstype:?}, which it may not (its kernel_types: {allowed})")]
    Type { fstype: String, allowed: String },
    #[error("cannot answer the client")]
    Answer(#[source] sys::Error),
}

/// Why a call was not performed: the client gets the errno, the user the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    pub errno: Errno,
    pub reason: String,
    pub by: By,
}

/// The origin of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Policy(Rule),
    /// The call was made and failed.
    Kernel,
    /// The kernel was still waiting for the server at the deadline.
    Silence,
    /// The kernel forbids all users to read another process's memory.
    NoTracing,
}

/// The rule of the policy that refused, where a definition could allow the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `kernel_types`
    Type,
    /// `kernel_options`
    Option,
    /// `mounts`
    Count,
    /// No definition can allow it.
    Fixed,
}

impl Refusal {
    pub(crate) fn policy(errno: Errno, reason: impl Into<String>) -> Self {
        Self::by_rule(Rule::Fixed, errno, reason)
    }

    pub(crate) fn by_rule(rule: Rule, errno: Errno, reason: impl Into<String>) -> Self {
        Self { errno, reason: reason.into(), by: By::Policy(rule) }
    }

    /// The kernel does not have the filesystem.
    pub fn is_missing_filesystem(&self) -> bool {
        self.by == By::Kernel && self.errno == Errno::NODEV
    }

    /// The same, or a part of it: each version of NFS is a module, too.
    pub fn may_lack_module(&self) -> bool {
        self.by == By::Kernel && matches!(self.errno, Errno::NODEV | Errno::PROTONOSUPPORT)
    }

    pub(crate) fn no_answer(fstype: &str) -> Self {
        Self { errno: Errno::TIMEDOUT, reason: format!("the kernel still waits for the server of the {fstype} mount"), by: By::Silence }
    }

    pub(crate) fn no_tracing() -> Self {
        let reason = "this kernel does not let Shorefast read the arguments of the client's call".to_owned();
        Self { errno: Errno::PERM, reason, by: By::NoTracing }
    }

    pub(crate) fn kernel(error: &sys::Error, words: &[String]) -> Self {
        let words: String = words.iter().map(|line| format!("; the kernel says: {line}")).collect();
        Self { errno: error.errno(), reason: format!("{error}{words}"), by: By::Kernel }
    }
}

impl From<sys::Error> for Refusal {
    fn from(error: sys::Error) -> Self {
        Self::kernel(&error, &[])
    }
}
