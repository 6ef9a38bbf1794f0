//! What can fail, a variant per step. `Display` says the step; the chain says the rest.

use std::path::PathBuf;

use shorefast_broker as broker;
use shorefast_image as image;
use shorefast_runtimes as runtimes;
use shorefast_sandbox as sandbox;
use shorefast_sys as sys;

use crate::text;

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
    #[error("no client definition lists the type {fstype:?}{}", looked(directory, looked_at))]
    UnknownType { fstype: String, looked_at: Vec<PathBuf>, directory: PathBuf },
    #[error("there is no client {name:?}{}", looked(directory, looked_at))]
    UnknownClient { name: String, looked_at: Vec<PathBuf>, directory: PathBuf },
    #[error("cannot read client definitions in {file:?}")]
    DefinitionUnreadable { file: PathBuf, source: std::io::Error },
    #[error("client definition {file:?} is wrong: {problem}")]
    Definition { file: PathBuf, problem: String },
    /// No failure: said beside what was asked for.
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
    #[error("cannot use the container")]
    Container(#[source] runtimes::Error),
    #[error("cannot run mount(8)")]
    MountProgram { source: std::io::Error },
    #[error("mount(8) failed{}{said}", exit_status(*code))]
    HostMount { code: Option<i32>, why: String, said: Said },
    #[error("this kernel has no filesystem {} (Linux {kernel})", types.join(" or "))]
    NotInKernel { types: Vec<String>, kernel: String },
    #[error("the definition of client {client:?} does not say how it gets a secret")]
    NoSecretWay { client: String },
    #[error("client {client:?} reads one secret, and more were given")]
    TooManySecrets { client: String },
    #[error("cannot mount at {path:?}")]
    Target { path: PathBuf, source: sys::Error },
    #[error("cannot get the image")]
    Image(#[from] image::Error),
    #[error("cannot run the client")]
    Sandbox(#[source] sandbox::Error),
    #[error("cannot broker the client's mount")]
    Broker(#[source] broker::Error),
    #[error("the client's helper failed ({status}){said}")]
    Helper {
        status: String,
        /// None: killed.
        code: Option<i32>,
        said: Said,
    },
    #[error("the client's helper ended well but mounted nothing{said}")]
    NothingMounted { said: Said },
    #[error("the client mounted but does not serve: {source}{said}")]
    NotServing { source: std::io::Error, said: Said },
    #[error("the client ended before its mount was complete{said}")]
    ClientEnded { said: Said },
    #[error("not done after {seconds} s: {waiting_for}{said}")]
    Deadline { seconds: u64, waiting_for: &'static str, said: Said },
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
    #[error("cannot keep a record in {path:?}")]
    Record { path: PathBuf, source: std::io::Error },
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
}

/// What client and kernel had to say: part of the error, never logged elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The helper's last lines.
    pub helper: Vec<String>,
    /// Calls of the client that were not performed, and why.
    pub refused: Vec<String>,
}

impl std::fmt::Display for Said {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in &self.refused {
            write!(out, "\n  broker: {}", text::printable_line(line))?;
        }
        for line in &self.helper {
            write!(out, "\n  helper: {}", text::printable_line(line))?;
        }
        Ok(())
    }
}

fn looked(directory: &std::path::Path, files: &[PathBuf]) -> String {
    if files.is_empty() {
        return format!(" (looked at the built-in ones; there are no client files in {})", directory.display());
    }
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    format!(" (looked at the built-in ones and {})", names.join(", "))
}

/// The start of a sentence about what covers a mount.
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

/// Errors sorted for exit codes and retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The call or the configuration is wrong: trying again is of no use.
    Usage,
    /// This machine does not let us.
    System,
    /// The mount or unmount failed.
    Mount,
}

impl Error {
    pub fn kind(&self) -> Kind {
        match self {
            Self::HostProc { .. } | Self::HostOutOfReach { .. } => Kind::System,
            Self::NotRoot | Self::NoType | Self::UnknownClient { .. } | Self::Options { .. } | Self::NoImage { .. } => Kind::Usage,
            Self::NoContainer { .. } | Self::Container(runtimes::Error::Selector(_)) => Kind::Usage,
            Self::DefinitionUnreadable { .. } | Self::Definition { .. } | Self::LastGoodInForce { .. } => Kind::Usage,
            Self::NoSecretWay { .. } | Self::TooManySecrets { .. } | Self::Sandbox(sandbox::Error::SecretLines { .. }) => Kind::Usage,
            Self::Image(image::Error::Reference { .. } | image::Error::Unknown { .. }) => Kind::Usage,
            Self::HostMount { code: Some(1), .. } => Kind::Usage,
            Self::HostMount { code: Some(2), .. } | Self::MountProgram { .. } => Kind::System,
            Self::Record { .. } | Self::Keeper(_) | Self::Wait(_) | Self::Image(image::Error::Store { .. }) => Kind::System,
            _ => Kind::Mount,
        }
    }

    /// One line for somebody who can do something about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NotRoot => "run it as root; `shorefast mount --dry-run` shows the plan without",
            Self::HostProc { .. } => {
                "--host-proc and HOSTPROCPATH name the host's /proc as the container sees it; the container must be privileged"
            }
            Self::HostOutOfReach { .. } => {
                "what it starts would end with the container: give it the host's processes (--pid=host, hostPID: true) and no user namespace"
            }
            Self::NoType => "say -t TYPE, or --client or --client-file",
            Self::UnknownType { directory, .. } | Self::UnknownClient { directory, .. } => {
                return Some(format!(
                    "`shorefast client list` shows all; put a client file into {}, or name one with --client-file",
                    directory.display()
                ));
            }
            Self::Definition { .. } | Self::LastGoodInForce { .. } => "docs/CLIENTS.md lists the keys",
            Self::NoImage { .. } => "add image = \"…\" to the definition, or say --image",
            Self::NoContainer { .. } => "add container = \"NAME\" or \"KEY=VALUE\" to the definition, or say --container",
            Self::Container(error) => error.hint(),
            Self::Sandbox(sandbox::Error::ContainerGone { .. }) => "the container was stopped meanwhile: start it and try again",
            Self::Sandbox(sandbox::Error::OwnersNotMapped { .. }) => {
                "root's files there would be the client's: use mode container, or say source_access = \"as-root\" if they may be (docs/CLIENTS.md)"
            }
            Self::MountProgram { .. } => "mode host needs mount(8) of util-linux or busybox on this host",
            Self::HostMount { why, .. } => {
                return Some(format!(
                    "this was plain mount(8), not a client, because: {why}; `shorefast client list` shows the types with one"
                ));
            }
            Self::NotInKernel { .. } => "load its module (modprobe), install the package that has it, or use another kernel",
            Self::NoSecretWay { .. } => {
                "add secret = { to_option = \"…\" } to its definition (docs/CLIENTS.md), or name the file with an option"
            }
            Self::TooManySecrets { .. } => "give it once: with --secret-file, or as an option",
            Self::Sandbox(sandbox::Error::SecretLines { .. }) => {
                "the file holds the secret alone, such as a password, with or without a newline behind it"
            }
            Self::Target { source, .. } => match source.errno() {
                rustix::io::Errno::NOENT => "create the directory first",
                rustix::io::Errno::NOTDIR => "the target must be a directory",
                rustix::io::Errno::TIMEDOUT => "the path leads through a mount whose server does not answer",
                _ => return None,
            },
            Self::Image(error) => return error.hint(),
            Self::Sandbox(sandbox::Error::Execute(_)) => {
                "is the helper in the image or container? the first word of `command` is looked up on its PATH"
            }
            Self::Sandbox(sandbox::Error::Root { .. } | sandbox::Error::Start(_) | sandbox::Error::Inside(_))
                if !sys::seccomp::is_supported() =>
            {
                "this kernel is too old for unprivileged clients (docs/KERNEL.md); --mode chroot runs the client with all rights"
            }
            Self::Sandbox(sandbox::Error::Limit { .. }) => "limits need a mounted cgroup hierarchy with that controller",
            Self::Helper { said, .. } | Self::NothingMounted { said } => said.hint(),
            Self::Deadline { .. } => "is the server reachable? --timeout changes the limit",
            Self::NoServices { otherwise, .. } | Self::NoHostFile { otherwise, .. } => return otherwise.clone(),
            Self::NotServing { .. } | Self::ClientEnded { .. } => {
                "run the client in the foreground with its debug option to see why it ended"
            }
            Self::NotOurs { .. } => "`shorefast list` shows ours; for others there is umount(8)",
            Self::Unmount { source, .. } if source.raw_os_error() == Some(libc::EBUSY) => {
                "something uses it (fuser -vm shows what); --lazy detaches it now, --force also cuts the users off"
            }
            Self::Covered { client_ended: true, .. } => {
                "what is mounted there is not ours; unmount it first (umount(8)), then `shorefast umount` or `reconcile` removes the rest"
            }
            Self::Covered { .. } => {
                "what is mounted there is not ours; unmount it first (umount(8)). --force ends our client, and only that"
            }
            Self::OtherNamespace { id, .. } => {
                return Some(format!("`shorefast umount {id}` unmounts it there; a path means the mount that is seen here"));
            }
            Self::Lingers { .. } | Self::Underway { .. } => "`shorefast umount --force` ends it",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

impl Said {
    fn hint(&self) -> &'static str {
        let has = |part: &str| self.refused.iter().any(|line| line.contains(part));
        if has("may not mount type") {
            "if the client is meant to mount that type, add it to kernel_types in its definition"
        } else if has("may not pass the option") {
            "if that is meant, say it yourself with -o, or list it in kernel_options of the client's definition (docs/CLIENTS.md)"
        } else if has("fsopen") && has("ENODEV") {
            "this kernel lacks the filesystem: load its module or use another kernel"
        } else if has("mounted a second time") || has("made more than") {
            "if the client is meant to mount more than once, set mounts in its definition"
        } else {
            "check source, options and credentials; `shorefast mount --dry-run` shows how the helper is called"
        }
    }
}
