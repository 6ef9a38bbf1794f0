//! What can go wrong between a call and its answer.

use rustix::io::Errno;
use shorefast_sys as sys;

/// The broker itself cannot go on. What the client did wrong is a [`Refusal`], not an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot look into the sandbox's mount namespace")]
    View(#[source] sys::Error),
    #[error("cannot receive the client's calls")]
    Receive(#[source] sys::Error),
    #[error("cannot answer the client")]
    Answer(#[source] sys::Error),
}

/// Why a call was not performed: the client hears the errno, the user the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    pub errno: Errno,
    pub reason: String,
    /// The kernel tried and failed, in contrast to our policy saying no.
    pub by_kernel: bool,
}

impl Refusal {
    pub(crate) fn policy(errno: Errno, reason: impl Into<String>) -> Self {
        Self { errno, reason: reason.into(), by_kernel: false }
    }

    pub(crate) fn kernel(error: &sys::Error, words: &[String]) -> Self {
        let words: String = words.iter().map(|line| format!("; the kernel says: {line}")).collect();
        Self { errno: error.errno(), reason: format!("{error}{words}"), by_kernel: true }
    }
}

impl From<sys::Error> for Refusal {
    fn from(error: sys::Error) -> Self {
        Self::kernel(&error, &[])
    }
}
