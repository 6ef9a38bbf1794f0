//! In: an error. Out: its kind and step, for callers that choose an exit code or decide whether to retry.

use shorefast_image as image;
use shorefast_runtimes as runtimes;
use shorefast_sandbox as sandbox;

use crate::error::Error;

/// Errors sorted for exit codes, gRPC codes, HTTP answers and retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The call or the configuration is wrong: a retry is useless.
    Usage,
    /// The caller is not root.
    Privilege,
    /// Something the call names does not exist: a target, a mount, a client for a type, a container.
    NotFound,
    /// The target already has this same mount.
    AlreadySame,
    /// The target has another mount of ours.
    AlreadyDifferent,
    /// What should be changed is in use or covered, or another call is working on it.
    Busy,
    /// The kernel, or a rule of ours, forbids it.
    Denied,
    /// A login is missing or wrong.
    Credentials,
    /// Not done in time.
    Deadline,
    /// Cancelled by the caller that requested it.
    Cancelled,
    /// A server or process does not answer, or has ended: a retry may succeed.
    Unavailable,
    /// The image cannot be obtained.
    ImageUnavailable,
    /// This kernel or host lacks something.
    Unsupported,
    /// The client failed, for a reason that only its output tells.
    Client,
    /// The mount or unmount failed for another reason.
    Failed,
    /// This machine prevents the work: records, processes, memory.
    Internal,
}

impl Error {
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotRoot => Kind::Privilege,
            Self::NoType | Self::UnknownClient { .. } | Self::Options { .. } | Self::NoImage { .. } => Kind::Usage,
            Self::NoContainer { .. }
            | Self::UnsignedContainer { .. }
            | Self::Container(runtimes::Error::Selector(_))
            | Self::SourceWrites { .. } => Kind::Usage,
            Self::SourceNotReplaceable { .. } => Kind::Denied,
            Self::HostFile { .. } => Kind::Internal,
            Self::DefinitionUnreadable { .. } | Self::Definition { .. } | Self::LastGoodInForce { .. } => Kind::Usage,
            Self::NoSecretWay { .. } | Self::TooManySecrets { .. } | Self::SecretInUnit { .. } => Kind::Usage,
            Self::Sandbox(sandbox::Error::SecretLines { .. } | sandbox::Error::SecretKind { .. }) => Kind::Usage,
            Self::UnknownSecret { .. } | Self::SecretsOption { .. } | Self::NoGroupWay { .. } | Self::SecretFile { .. } => Kind::Usage,
            Self::NotForGuests { .. } => Kind::Denied,
            Self::UnknownType { .. } | Self::NotOurs { .. } => Kind::NotFound,
            Self::Container(error) => container_kind(error),
            Self::Image(error) => image_kind(error),
            Self::ImageStore(error) => image_kind(error),
            Self::StillUsed { .. } => Kind::Busy,
            Self::Purge { .. } => Kind::Internal,
            Self::HostMount { code: Some(1), .. } => Kind::Usage,
            Self::HostMount { code: Some(2), .. } | Self::MountProgram { .. } => Kind::Internal,
            Self::Helper { said, .. } | Self::NothingMounted { said } | Self::ClientEnded { said } if said.is_login_refused() => {
                Kind::Credentials
            }
            Self::HostMount { said, .. } if said.is_login_refused() => Kind::Credentials,
            Self::HostMount { .. } | Self::Helper { .. } | Self::NothingMounted { .. } | Self::EndedBadly { .. } => Kind::Client,
            Self::NotServing { .. } | Self::ClientEnded { .. } => Kind::Unavailable,
            Self::Deadline { .. } | Self::UnmountHangs { .. } | Self::Sandbox(sandbox::Error::TimedOut) => Kind::Deadline,
            Self::NotInKernel { .. } | Self::Sandbox(sandbox::Error::Limit { .. } | sandbox::Error::OwnersNotMapped { .. }) => {
                Kind::Unsupported
            }
            Self::OtherGroup { .. } => Kind::Unsupported,
            Self::NoServices { .. } | Self::NoHostFile { .. } | Self::Service { .. } => Kind::Unavailable,
            Self::Sandbox(sandbox::Error::ContainerGone { .. } | sandbox::Error::ContainerHangs { .. }) => Kind::Unavailable,
            Self::Sandbox(sandbox::Error::File { source, .. } | sandbox::Error::Source { source, .. }) => errno_kind(source.errno()),
            Self::Target { source, .. } | Self::SubDirectory { source, .. } => errno_kind(source.errno()),
            Self::Attach { source, .. } | Self::Namespace { source, .. } => errno_kind(source.errno()),
            Self::Already { differs, .. } if differs.is_empty() => Kind::AlreadySame,
            Self::Already { .. } => Kind::AlreadyDifferent,
            Self::Unmount { source, .. } => rustix::io::Errno::from_io_error(source).map_or(Kind::Failed, errno_kind),
            Self::Covered { .. } | Self::Underway { .. } | Self::Lingers { .. } | Self::OtherNamespace { .. } => Kind::Busy,
            Self::HostProc { .. } | Self::HostOutOfReach { .. } | Self::Record { .. } | Self::Keeper(_) | Self::Wait(_) => Kind::Internal,
            Self::NoRecipe => Kind::Unavailable,
            Self::CannotReplace { why, .. } => why.kind(),
            Self::Sandbox(_) | Self::Broker(_) => Kind::Failed,
        }
    }

    /// The step of the pipeline that failed.
    pub fn step(&self) -> Step {
        match self {
            Self::NotRoot | Self::HostProc { .. } | Self::HostOutOfReach { .. } => Step::Start,
            Self::NoType | Self::UnknownType { .. } | Self::UnknownClient { .. } | Self::DefinitionUnreadable { .. } => Step::Plan,
            Self::Definition { .. } | Self::LastGoodInForce { .. } | Self::Options { .. } | Self::NoImage { .. } => Step::Plan,
            Self::NoContainer { .. } | Self::UnsignedContainer { .. } => Step::Plan,
            Self::NoSecretWay { .. } | Self::TooManySecrets { .. } | Self::SecretInUnit { .. } => Step::Plan,
            Self::UnknownSecret { .. } | Self::SecretsOption { .. } | Self::NoGroupWay { .. } | Self::NotForGuests { .. } => Step::Plan,
            Self::NotInKernel { .. } | Self::NoHostFile { .. } | Self::SecretFile { .. } => Step::Plan,
            Self::OtherGroup { .. } | Self::Target { .. } | Self::SubDirectory { .. } | Self::Namespace { .. } | Self::Already { .. } => {
                Step::Target
            }
            Self::SourceWrites { .. } | Self::SourceNotReplaceable { .. } => Step::Target,
            Self::HostFile { .. } => Step::Sandbox,
            Self::Image(_) | Self::ImageStore(_) | Self::Container(_) => Step::Image,
            Self::Sandbox(_) => Step::Sandbox,
            Self::Broker(_) => Step::Broker,
            Self::HostMount { .. } | Self::MountProgram { .. } => Step::Serve,
            Self::Helper { .. } | Self::NothingMounted { .. } | Self::NotServing { .. } | Self::ClientEnded { .. } => Step::Serve,
            Self::Deadline { .. } | Self::Service { .. } | Self::NoServices { .. } | Self::Wait(_) => Step::Serve,
            Self::Attach { .. } | Self::CannotReplace { .. } => Step::Attach,
            Self::Record { .. } | Self::Keeper(_) | Self::NoRecipe => Step::Record,
            Self::StillUsed { .. } | Self::Purge { .. } => Step::Unmount,
            Self::NotOurs { .. } | Self::Underway { .. } | Self::Unmount { .. } | Self::Covered { .. } => Step::Unmount,
            Self::OtherNamespace { .. } | Self::UnmountHangs { .. } | Self::Lingers { .. } | Self::EndedBadly { .. } => Step::Unmount,
        }
    }
}

/// A step of the pipeline, as named in the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    Start,
    Plan,
    Target,
    Image,
    Sandbox,
    Broker,
    Serve,
    Attach,
    Record,
    Unmount,
}

fn errno_kind(errno: rustix::io::Errno) -> Kind {
    use rustix::io::Errno;
    match errno {
        Errno::NOENT | Errno::NOTDIR => Kind::NotFound,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => Kind::Denied,
        Errno::BUSY => Kind::Busy,
        Errno::TIMEDOUT => Kind::Deadline,
        _ => Kind::Failed,
    }
}

fn container_kind(error: &runtimes::Error) -> Kind {
    match error {
        runtimes::Error::Selector(_) => Kind::Usage,
        runtimes::Error::Unknown { .. } | runtimes::Error::Several { .. } => Kind::NotFound,
        runtimes::Error::Absent { .. } | runtimes::Error::NoRuntime => Kind::Unsupported,
        runtimes::Error::Silent { .. } | runtimes::Error::Stopped { .. } => Kind::Unavailable,
        runtimes::Error::Refused { .. } | runtimes::Error::Nonsense { .. } => Kind::Failed,
    }
}

fn image_kind(error: &image::Error) -> Kind {
    match error {
        image::Error::Reference { .. } | image::Error::Unknown { .. } => Kind::Usage,
        image::Error::Store { .. } => Kind::Internal,
        image::Error::Keys { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Kind::Usage,
        image::Error::Keys { .. } | image::Error::Signature { .. } => Kind::Denied,
        image::Error::Export { .. } => Kind::Failed,
        image::Error::InUse { .. } => Kind::Busy,
        error if error.is_about_credentials() => Kind::Credentials,
        _ => Kind::ImageUnavailable,
    }
}
