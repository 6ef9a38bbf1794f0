//! Why a launch failed. Runs in the launching process: it gets kernel errors, or error texts that the sandbox's first
//! process sent over the control socket, and returns an [`Error`].

use std::path::PathBuf;

use shorefast_sys as sys;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open the root filesystem {path:?}")]
    Root { path: PathBuf, source: sys::Error },
    #[error("cannot give the client its source {path:?}")]
    Source { path: PathBuf, source: sys::Error },
    /// The source's filesystem does not support ID-mapped mounts, so a sandbox without a user namespace has to be used.
    #[error("the filesystem of {path:?} does not support ID-mapped mounts")]
    OwnersNotMapped { path: PathBuf, source: sys::Error },
    #[error("cannot read {path:?}, which the client needs")]
    File { path: PathBuf, source: sys::Error },
    #[error("cannot put the client's files into the sandbox")]
    Fill(#[source] sys::Error),
    #[error("the secret{} is more than one line", path.as_ref().map(|path| format!(" in {path:?}")).unwrap_or_default())]
    SecretLines { path: Option<PathBuf> },
    #[error("the secret{} is {found}, and the client wants {wanted}", path.as_ref().map(|path| format!(" in {path:?}")).unwrap_or_default())]
    SecretKind { path: Option<PathBuf>, found: &'static str, wanted: &'static str },
    #[error("cannot limit the client's resources in {path:?}")]
    Limit { path: PathBuf, source: std::io::Error },
    #[error("the container ended (its first process was {pid})")]
    ContainerGone { pid: i32 },
    #[error("process {pid}, the first of the container, hangs in execve(2)")]
    ContainerHangs { pid: i32 },
    #[error("process {pid} does not belong to a container: it is in the host's mount namespace, or its user namespace has no root")]
    NoContainer { pid: i32 },
    #[error("cannot access the files of the container")]
    ContainerFiles(#[source] sys::Error),
    #[error("cannot mount the kernel's RPC pipes (rpc_pipefs)")]
    RpcPipefs(#[source] sys::Error),
    #[error("cannot start the sandbox")]
    Start(#[source] sys::Error),
    /// The first process shares no error values with us, so its error arrives as text.
    #[error("cannot set up the sandbox: {0}")]
    Inside(String),
    #[error("cannot execute the client's helper: {0}")]
    Execute(String),
    #[error("the sandbox did not start in time")]
    TimedOut,
    #[error("the sandbox ended unexpectedly")]
    Ended,
}
