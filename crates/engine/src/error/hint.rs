//! In: an error. Out: one line on what the user can do about it.

use shorefast_broker as broker;
use shorefast_sandbox as sandbox;
use shorefast_sys as sys;

use crate::error::{Awaited, Diagnostics, Error};

const MODULES_LOCKED: &str =
    "kernel.modules_disabled=1 forbids loading its module until the next boot: load it before that is set (/etc/modules-load.d)";

const LOGIN_REFUSED: &str = "the server refuses the login: check user, key and password";

impl Error {
    /// One line of advice for the user.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NotRoot => "run it as root; only the client needs no rights. `shorefast mount --dry-run` shows the plan without root",
            Self::HostProc { .. } => {
                "--host-proc and HOSTPROCPATH name the host's /proc as the container sees it; the container must be privileged"
            }
            Self::HostOutOfReach { .. } => {
                "what it starts would end with the container: give it the host's processes (--pid=host, hostPID: true) and no user namespace"
            }
            Self::NoType => "say -t TYPE, or --client or --client-file",
            Self::UnknownType { looked, .. } | Self::UnknownClient { looked, .. } => {
                return Some(format!(
                    "`shorefast client list` shows all; put a client file into {}, or name one with --client-file",
                    looked.directory.display()
                ));
            }
            Self::Definition { .. } | Self::LastGoodInForce { .. } => "docs/CLIENTS.md lists the keys",
            Self::NoImage { .. } => "add image = \"…\" to the definition, or pass --image",
            Self::NoContainer { .. } => "add container = \"NAME\" or \"KEY=VALUE\" to the definition, or pass --container",
            Self::UnsignedContainer { .. } => "use mode container, or take `signed_by` out of the client's definition",
            Self::Container(error) => error.hint(),
            Self::Sandbox(sandbox::Error::ContainerGone { .. }) => "the container was stopped meanwhile: start it and try again",
            Self::Sandbox(sandbox::Error::ContainerHangs { .. }) => {
                "it waits for a file whose server does not answer: end that container, or that server"
            }
            Self::Sandbox(sandbox::Error::OwnersNotMapped { .. }) => {
                "root's files there would belong to the client: use mode container, or allow it with source_access = \"as-root\" (docs/CLIENTS.md)"
            }
            Self::MountProgram { .. } => "mode host needs mount(8) of util-linux or busybox on this host",
            Self::HostMount { why, .. } => {
                return Some(format!(
                    "this was plain mount(8), not a client, because: {why}; `shorefast client list` shows the types with one"
                ));
            }
            Self::NotInKernel { .. } if sys::sysctl::are_modules_locked() => MODULES_LOCKED,
            Self::NotInKernel { .. } => "load its module (modprobe), install the package that has it, or use another kernel",
            Self::Record { source, .. } => match rustix::io::Errno::from_io_error(source)? {
                rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT => {
                    "free some space there, or choose a directory on another filesystem with --run-dir; a mount needs 200 KiB"
                }
                rustix::io::Errno::ROFS => "choose a directory that can be written to with --run-dir; in memory is best",
                _ => return None,
            },
            Self::NoSecretWay { .. } => {
                "add secret = { to_option = \"…\" } to its definition (docs/CLIENTS.md), or name the file with an option"
            }
            Self::UnknownSecret { .. } => {
                "a secret's name is that of the option it is for; options that are no secrets belong among the options"
            }
            Self::SecretFile { .. } => "the file must be root's alone: chown root, chmod 600, in a directory that only root can write to",
            Self::SecretsOption { .. } => "it must be one line without commas and quotes",
            Self::NoGroupWay { .. } => {
                "leave fsGroup out, or add group_option = \"…\" to its definition if it has such an option (docs/CLIENTS.md)"
            }
            Self::OtherGroup { .. } => {
                "pods that share a volume on one machine need the same fsGroup: set it alike, or give each pod a volume of its own"
            }
            Self::NotForGuests { .. } => "an administrator can offer it as a PersistentVolume or StorageClass (docs/CSI.md)",
            Self::SecretInUnit { .. } => "put it into a file that only root can read, and name that: -o shorefast-secret=FILE",
            Self::TooManySecrets { .. } => "give it once: with --secret-file, or as an option",
            Self::Sandbox(sandbox::Error::SecretLines { .. }) => {
                "the file must hold only the secret, such as a password, with or without a trailing newline"
            }
            Self::Sandbox(sandbox::Error::SecretKind { .. }) => "`shorefast client show` says what its secret is (docs/CLIENTS.md#secrets)",
            Self::Target { source, .. } => match source.errno() {
                rustix::io::Errno::NOENT => "create the directory first",
                rustix::io::Errno::NOTDIR => "the target must be a directory",
                rustix::io::Errno::TIMEDOUT => "the path leads through a mount whose server does not answer",
                _ => return None,
            },
            Self::SubDirectory { source, .. } => match source.errno() {
                rustix::io::Errno::NOENT => "it is not on the server: was the volume deleted there?",
                rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => "it must be a directory, and no symbolic link may lead to it",
                rustix::io::Errno::XDEV => "another filesystem is mounted there",
                rustix::io::Errno::TIMEDOUT => "the volume's server does not answer",
                _ => return None,
            },
            Self::SourceWrites { .. } => {
                "mount it with -o ro, or add to the definition source_writes = \"in-place\" (it writes into the file) or \"replace\" (it writes a new one and renames it)"
            }
            Self::SourceNotReplaceable { .. } => {
                "what is written to the mount would be lost: mount it with -o ro, or see source_access in docs/CLIENTS.md"
            }
            Self::Image(error) => return error.hint(),
            Self::ImageStore(error) => return error.hint(),
            Self::StillUsed { .. } => "unmount first: `shorefast list` shows what is mounted",
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
            Self::Deadline { waiting_for: Awaited::HelperEnd, .. } => {
                "a helper that serves in the foreground needs daemon = \"foreground\" in its definition, or another command (docs/CLIENTS.md)"
            }
            Self::Deadline { waiting_for: Awaited::Image, .. } => {
                "`shorefast image pull` gets it ahead of the mount; --image-timeout changes the limit"
            }
            Self::Deadline { .. } => "is the server reachable? --timeout changes the limit",
            Self::NoServices { otherwise, .. } | Self::NoHostFile { otherwise, .. } => return otherwise.clone(),
            Self::ClientEnded { said } if said.is_login_refused() => LOGIN_REFUSED,
            Self::NotServing { .. } | Self::ClientEnded { .. } => {
                "run the client in the foreground with its debug option to see why it ended"
            }
            Self::Already { .. } => {
                "`shorefast inspect` shows what is mounted there; `shorefast umount` ends it; --over mounts on top of it"
            }
            Self::NoRecipe => "unmount it and mount it again",
            Self::CannotReplace { why, .. } => why.hint()?,
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
            Self::EndedBadly { .. } => "what was written last may not have reached the server: look there before you rely on it",
            Self::Lingers { .. } | Self::Underway { .. } => "`shorefast umount --force` ends it",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

impl Diagnostics {
    fn hint(&self) -> &'static str {
        let by = |rule: broker::Rule| self.refused.iter().any(|refusal| refusal.by == broker::By::Policy(rule));
        if by(broker::Rule::Type) {
            "if the client is meant to mount that type, add it to kernel_types in its definition"
        } else if by(broker::Rule::Option) {
            "if that is intended, pass it with -o, or list it in kernel_options of the client's definition (docs/CLIENTS.md)"
        } else if self.refused.iter().any(|refusal| refusal.by == broker::By::NoTracing) {
            "kernel.yama.ptrace_scope=3 keeps everybody from it, until the next boot: set it to 2 or less in /etc/sysctl.d, or use --mode chroot"
        } else if sys::sysctl::are_modules_locked() && self.refused.iter().any(broker::Refusal::may_lack_module) {
            MODULES_LOCKED
        } else if self.refused.iter().any(broker::Refusal::is_missing_filesystem) {
            "this kernel lacks the filesystem: load its module or use another kernel"
        } else if by(broker::Rule::Count) {
            "if the client is meant to mount more than once, set mounts in its definition"
        } else if self.is_login_refused() {
            LOGIN_REFUSED
        } else if self.helper.iter().any(|line| line.contains("fuse")) && sys::fuse::open().is_err() {
            "this host does not let anybody open FUSE, which the client needs: `shorefast doctor` says what to do"
        } else if !sys::sysctl::has_user_namespaces() {
            "this host has no user namespaces, so the client ran as an ordinary user, which some refuse: sysctl user.max_user_namespaces=15000"
        } else {
            "check source, options and credentials; `shorefast mount --dry-run` shows how the helper is called"
        }
    }
}
