//! Errors, one variant per step. `Display` names the step; the source chain has the details.

mod hint;
mod failure;
mod kind;
mod login;
mod obstacle;

pub use failure::Failure;
pub use kind::{Kind, Step};
pub use obstacle::Obstacle;

use std::path::PathBuf;

use shorefast_broker as broker;
use shorefast_image as image;
use shorefast_runtimes as runtimes;
use shorefast_sandbox as sandbox;
use shorefast_sys as sys;

use crate::difference::Difference;
use crate::text;
use crate::wait_status::WaitStatus;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("root rights are needed")]
    NotRoot,
    #[error("cannot get to the host through {path:?}")]
    HostProc { path: PathBuf, source: sys::Error },
    #[error("the host is out of reach: this container has a {kind} namespace of its own")]
    HostOutOfReach { kind: &'static str },
    #[error("no filesystem type given")]
    NoType,
    #[error("no client definition lists the type {fstype:?}{}{looked}", meant(near.as_deref()))]
    UnknownType { fstype: String, near: Option<String>, looked: Box<Looked> },
    #[error("there is no client {name:?}{}{looked}", meant(near.as_deref()))]
    UnknownClient { name: String, near: Option<String>, looked: Box<Looked> },
    #[error("cannot read client definitions in {file:?}")]
    DefinitionUnreadable { file: PathBuf, source: std::io::Error },
    #[error("client definition {file:?} is wrong: {problem}")]
    Definition { file: PathBuf, problem: String },
    /// Not a failure: reported besides the result.
    #[error("the configuration in {directory:?} is wrong, and its last good state stays in force")]
    LastGoodInForce {
        directory: PathBuf,
        #[source]
        problem: Box<Error>,
    },
    #[error("cannot understand the mount options: {problem}")]
    Options { problem: &'static str },
    #[error("client {client:?} has no image")]
    NoImage { client: String },
    #[error("client {client:?} has no container to run in")]
    NoContainer { client: String },
    #[error("the image of client {client:?} must be signed, and the files of a container are not")]
    UnsignedContainer { client: String },
    #[error("cannot use the container")]
    Container(#[source] runtimes::Error),
    #[error("cannot run mount(8)")]
    MountProgram { source: std::io::Error },
    #[error("mount(8) failed{}{said}", exit_status(*code))]
    HostMount { code: Option<i32>, why: String, said: Diagnostics },
    #[error("this kernel has no filesystem {} (Linux {kernel})", types.join(" or "))]
    NotInKernel { types: Vec<String>, kernel: String },
    #[error("the definition of client {client:?} does not say how it gets a secret")]
    NoSecretWay { client: String },
    #[error("cannot use the secret in {path:?}")]
    SecretFile { path: PathBuf, source: std::io::Error },
    #[error("client {client:?} reads one secret, and more were given")]
    TooManySecrets { client: String },
    #[error("option {name:?} is a secret, and everybody can read a unit")]
    SecretInUnit { name: String },
    #[error("client {client:?} knows no secret {name:?}; it knows {}", list(known))]
    UnknownSecret { client: String, name: String, known: Vec<String> },
    #[error("the value for {name:?} that comes with the secret of client {client:?} cannot be an option")]
    SecretsOption { client: String, name: String },
    #[error("client {client:?} cannot be told which group files belong to")]
    NoGroupWay { client: String },
    #[error("{path:?} is mounted already, and its files do not belong to group {asked}")]
    OtherGroup { path: PathBuf, asked: u32 },
    #[error("not for a volume that a pod's author writes: {what}")]
    NotForGuests { what: String },
    #[error("cannot mount at {path:?}")]
    Target { path: PathBuf, source: sys::Error },
    #[error("cannot use the directory {} of a mount", path.display())]
    SubDirectory { path: PathBuf, source: sys::Error },
    #[error("{path:?} is a file, and the definition of client {client:?} does not say how the client writes to it")]
    SourceWrites { path: PathBuf, client: String },
    #[error("client {client:?} writes a new file and renames it to its source, and may not do that in {directory:?}")]
    SourceNotReplaceable { directory: PathBuf, client: String },
    #[error("cannot use {path:?}, which its client should know")]
    HostFile { path: PathBuf, source: std::io::Error },
    #[error("cannot get the image")]
    Image(#[from] image::Error),
    /// Of a command that is about the store itself, and gets no image.
    #[error(transparent)]
    ImageStore(Box<image::Error>),
    #[error("nothing is removed while it is in use: {}", users.join(", "))]
    StillUsed { users: Vec<String> },
    #[error("cannot remove {path:?}")]
    Purge { path: PathBuf, source: std::io::Error },
    #[error("cannot run the client")]
    Sandbox(#[source] sandbox::Error),
    #[error("cannot broker the client's mount")]
    Broker(#[source] broker::Error),
    #[error("the client's helper failed ({status}){said}")]
    Helper {
        status: String,
        /// None: killed by a signal.
        code: Option<i32>,
        said: Diagnostics,
    },
    #[error("the client's helper succeeded but mounted nothing{said}")]
    NothingMounted { said: Diagnostics },
    #[error("the client mounted but does not serve: {source}{said}")]
    NotServing { source: std::io::Error, said: Diagnostics },
    #[error("the client ended before its mount was complete{said}")]
    ClientEnded { said: Diagnostics },
    #[error("not done after {seconds} s: {waiting_for}{said}")]
    Deadline { seconds: u64, waiting_for: Awaited, said: Diagnostics },
    #[error("cannot run the service {name}: {problem}")]
    Service { name: String, problem: String },
    #[error("this mount needs services beside it: {problem}")]
    NoServices { problem: String, otherwise: Option<String> },
    #[error("this mount needs {service} beside it, which needs {path:?} of this host")]
    NoHostFile { service: String, path: PathBuf, otherwise: Option<String>, source: std::io::Error },
    #[error("cannot wait for the client")]
    Wait(#[source] sys::Error),
    #[error("cannot enter the mount namespace {path:?}")]
    Namespace { path: PathBuf, source: sys::Error },
    #[error("cannot attach the mount at {path:?}")]
    Attach { path: PathBuf, source: sys::Error },
    #[error("cannot start the keeper of the mount")]
    Keeper(#[source] sys::Error),
    #[error("what is needed to start the client again is lost: its keeper was killed")]
    NoRecipe,
    #[error("cannot replace the client of {path:?}: {why}")]
    CannotReplace { path: PathBuf, why: Obstacle },
    #[error("cannot keep a record in {path:?}")]
    Record { path: PathBuf, source: std::io::Error },
    #[error("{path:?} has {}", already(differs))]
    Already { path: PathBuf, differs: Vec<Difference> },
    #[error("{path:?} is not a mount of ours")]
    NotOurs { path: PathBuf },
    #[error("{path:?} is still being mounted, by pid {pid}")]
    Underway { path: PathBuf, pid: i32 },
    #[error("cannot unmount {path:?}")]
    Unmount { path: PathBuf, source: std::io::Error },
    #[error("cannot unmount {path:?}: {} on it{}", mounted(by), if *client_ended { "; its client was ended" } else { "" })]
    Covered { path: PathBuf, by: Vec<String>, client_ended: bool },
    #[error("{path:?} is mounted in another mount namespace (mnt:[{namespace}])")]
    OtherNamespace { path: PathBuf, namespace: u64, id: String },
    #[error("cannot unmount {path:?}: not even lazily within the deadline")]
    UnmountHangs { path: PathBuf },
    #[error("{path:?} is unmounted, but its client (pid {pid}) does not end")]
    Lingers { path: PathBuf, pid: i32 },
    #[error("{path:?} is unmounted, but its client failed while it ended ({status}){said}")]
    EndedBadly { path: PathBuf, status: WaitStatus, said: Diagnostics },
}

/// Where a client was looked for.
#[derive(Debug)]
pub struct Looked {
    /// Client files.
    pub at: Vec<PathBuf>,
    /// Where a new one belongs.
    pub directory: PathBuf,
}

/// What a mount was waiting for when its time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    Image,
    /// mount(8), in mode host.
    HostMount,
    Server,
    Mount,
    Service,
    HelperEnd,
}

impl std::fmt::Display for Awaited {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Image => "the image has not arrived",
            Self::HostMount => "mount(8) has not ended",
            Self::Server => "the server does not answer",
            Self::Mount => "the client has not mounted yet",
            Self::Service => "the client mounted but does not answer",
            Self::HelperEnd => "the client mounted and serves, but its helper has not ended",
        })
    }
}

/// Output of the helper and refusals of the broker: part of the error, never logged elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// The helper's last lines.
    pub helper: Vec<String>,
    /// The client's calls that were not performed, and why.
    pub refused: Vec<broker::Refusal>,
}

impl std::fmt::Display for Diagnostics {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for refusal in &self.refused {
            write!(out, "\n  broker: {}", text::printable_line(&refusal.reason))?;
        }
        for line in &self.helper {
            write!(out, "\n  helper: {}", text::printable_line(line))?;
        }
        Ok(())
    }
}

fn meant(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

impl std::fmt::Display for Looked {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.at.is_empty() {
            return write!(out, " (looked at the built-in ones; there are no client files in {})", self.directory.display());
        }
        let names: Vec<_> = self.at.iter().map(|file| file.display().to_string()).collect();
        write!(out, " (looked at the built-in ones and {})", names.join(", "))
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The start of a sentence about the mounts that cover this one.
fn mounted(by: &[String]) -> String {
    match by {
        [] => "something is mounted".to_owned(),
        [one] => format!("{one} is mounted"),
        several => format!("{} are mounted", several.join(", ")),
    }
}

fn exit_status(code: Option<i32>) -> String {
    code.map_or_else(|| " (killed by a signal)".to_owned(), |code| format!(" (exit status {code})"))
}

fn already(differs: &[Difference]) -> String {
    if differs.is_empty() {
        return "this mount already".to_owned();
    }
    let names: Vec<_> = differs.iter().map(ToString::to_string).collect();
    format!("another mount of ours already, which differs in {}", names.join(", "))
}

impl Error {
    /// The diagnostics, for errors that have any.
    pub fn said(&self) -> Option<&Diagnostics> {
        match self {
            Self::Helper { said, .. } | Self::NothingMounted { said } | Self::NotServing { said, .. } => Some(said),
            Self::ClientEnded { said } | Self::Deadline { said, .. } | Self::HostMount { said, .. } => Some(said),
            Self::EndedBadly { said, .. } => Some(said),
            _ => None,
        }
    }
}

/// The whole chain as one text: each cause once.
pub fn chain(error: &dyn std::error::Error, show: impl Fn(&dyn std::error::Error) -> String) -> String {
    let mut text = show(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        // Skip a cause that the text already contains.
        let line = show(error);
        if !text.contains(&line) {
            text.push_str(": ");
            text.push_str(&line);
        }
        cause = error.source();
    }
    text
}
