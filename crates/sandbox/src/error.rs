use std::path::PathBuf;

use shorefast_sys as sys;

/// Why no client runs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open the root filesystem {path:?}")]
    Root { path: PathBuf, source: sys::Error },
    #[error("cannot give the client its source {path:?}")]
    Source { path: PathBuf, source: sys::Error },
    /// The source's filesystem cannot show its owners through a user namespace: a sandbox without
    /// one has to be used.
    #[error("the filesystem of {path:?} cannot map owners")]
    OwnersNotMapped { path: PathBuf, source: sys::Error },
    #[error("cannot read {path:?}, which the client needs")]
    File { path: PathBuf, source: sys::Error },
    #[error("cannot put the client's files into the sandbox")]
    Fill(#[source] sys::Error),
    #[error("the secret{} is more than one line", path.as_ref().map(|path| format!(" in {path:?}")).unwrap_or_default())]
    SecretLines { path: Option<PathBuf> },
    #[error("cannot limit the client's resources in {path:?}")]
    Limit { path: PathBuf, source: std::io::Error },
    #[error("the container ended (its first process was {pid})")]
    ContainerGone { pid: i32 },
    #[error("process {pid} is no container's: it shares the host's files, or has no root user")]
    NoContainer { pid: i32 },
    #[error("cannot see the files of the container")]
    ContainerFiles(#[source] sys::Error),
    #[error("cannot show the kernel's RPC pipes")]
    RpcPipefs(#[source] sys::Error),
    #[error("cannot start the sandbox")]
    Start(#[source] sys::Error),
    /// From inside, where no value of ours can leave: the child's own words.
    #[error("cannot set up the sandbox: {0}")]
    Inside(String),
    #[error("cannot execute the client's helper: {0}")]
    Execute(String),
    #[error("the sandbox did not come up in time")]
    TimedOut,
    #[error("the sandbox ended unexpectedly")]
    Ended,
}
