//! What to run, and in which kind of sandbox. Plain data with no side effects: the engine's plan makes it in the
//! launching process, and it can be printed. Of these types the sandbox's first process only sees those that
//! [`crate::orders`] contains.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};

/// Fixed paths inside the sandbox, independent of the paths on the host.
pub const TARGET: &str = "/shorefast/target";
pub const SOURCE: &str = "/shorefast/source";
pub const FILES: &str = "/shorefast/files";

/// Default size of the client's writable tmpfs, in bytes: enough for the caches of known clients.
pub const DEFAULT_SCRATCH: u64 = 256 << 20;

#[derive(Clone, Debug)]
pub struct Spec {
    /// The helper and its arguments. The first word is looked up in the image's PATH.
    pub command: Vec<OsString>,
    /// argv[0], if it differs from the first word.
    pub arg0: Option<String>,
    pub environment: Vec<(String, String)>,
    pub identity: Identity,
    pub processes: Processes,
    pub capabilities: Capabilities,
    pub source: Option<HostSource>,
    pub files: Vec<File>,
    /// Host directories, sockets and filesystems that the client sees unchanged.
    pub shown: Vec<Shown>,
    /// Programs of the image that are replaced by one that sends a request to the broker.
    pub stand_ins: Vec<PathBuf>,
    pub role: Role,
    pub process_limits: ProcessLimits,
    pub scratch_bytes: u64,
}

/// Limits that need no cgroup, so they cost a mount nothing and work on every host. The kernel counts processes per
/// user (each client has its own) and memory per process. `None`: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// All processes and threads of the client's user (RLIMIT_NPROC).
    pub processes: Option<u64>,
    /// Private writable memory of each process (RLIMIT_DATA).
    pub memory_bytes: Option<u64>,
}

impl Default for ProcessLimits {
    /// More than any known client uses under load (100 threads, whose stacks count as 8 MiB each, plus a cache), and
    /// less than what would stop a host from working.
    fn default() -> Self {
        Self { processes: Some(4096), memory_bytes: Some(8 << 30) }
    }
}

impl ProcessLimits {
    /// For clients that are root of a container, whose own limits apply, or the host's root.
    pub const NONE: Self = Self { processes: None, memory_bytes: None };
}

/// A host path that the client sees at [`SOURCE`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSource {
    pub path: PathBuf,
    pub access: SourceAccess,
    /// Mounted read-only, so the client cannot change it.
    pub is_read_only: bool,
}

/// Whose permissions apply when a client accesses files of its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceAccess {
    /// Those of "others": the client owns no file there except those that it creates.
    #[default]
    AsOthers,
    /// Root's: the client can read and write root's files, and files that it creates belong to root.
    AsRoot,
    /// The client answers for them itself, as a pass-through client that root of the host starts: everything there is its own to read, write and
    /// give away. It has capabilities over files in its own user namespace, whose ids are those of nobody and nothing on the host but of the
    /// source, which is id-mapped to them.
    KeepOwners,
}

impl SourceAccess {
    /// Rights over everybody's files take a user namespace of the client's own. Without one, the client has the rights of others.
    pub fn for_identity(self, identity: Identity) -> Self {
        match (self, identity) {
            (Self::KeepOwners, Identity::DedicatedUser | Identity::ContainerRoot) => Self::AsOthers,
            (access, _) => access,
        }
    }

    /// Those of a client in a user namespace of its own.
    pub fn capabilities(self) -> CapabilitySet {
        match self {
            Self::AsOthers | Self::AsRoot => CapabilitySet::empty(),
            Self::KeepOwners => CAPABILITIES_OVER_FILES,
        }
    }
}

/// What they allow is checked against the user namespace of a file's owner: on the host, that is none but the source's.
const CAPABILITIES_OVER_FILES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID);

/// Something of the host, shown at `inside`, which is below a directory that the sandbox provides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub what: Thing,
    pub inside: PathBuf,
}

/// Must be either dedicated to this sandbox or accessible to every user of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    Directory(PathBuf),
    Socket(PathBuf),
    /// The filesystem through which the kernel asks for RPC credentials on this host. Its directories are accessible to
    /// every user, its pipes only to root.
    RpcPipefs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Mounts: mount(2) and umount2(2) are forwarded to the broker.
    Client,
    /// Runs beside mounts: while it starts, its bind(2) calls and its unix sockets are forwarded to the broker as well.
    Service,
    /// Runs beside mounts and answers upcalls of the kernel: for its whole life, its opening of pipes is forwarded.
    Answerer,
}

/// The user that the client runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// Root of a new user namespace, mapped to uids that nothing else on the host uses.
    UserNamespace,
    /// A uid of the host that no other process has.
    DedicatedUser,
    /// Root of a container that is already running, without capabilities.
    ContainerRoot,
    /// The host's root with all capabilities: it mounts by itself, and is fully trusted.
    HostRoot,
}

/// Properties that are fixed once the first process has been started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub processes: Processes,
    pub rights: Rights,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// No capabilities, and no way to gain any.
    None,
    /// Those of the host's root. The ipc and uts namespaces are shared with the host as well.
    All,
}

impl Shape {
    /// The shape of nearly every client; the one that is prepared before the plan is known.
    pub const USUAL: Self = Self { processes: Processes::Own, rights: Rights::None };
}

impl Spec {
    /// What the client may do in a user namespace of its own. In any other namespace it would count for more than its source.
    pub fn capabilities_held(&self) -> CapabilitySet {
        match (&self.source, self.identity) {
            (Some(source), Identity::UserNamespace) => source.access.capabilities(),
            _ => CapabilitySet::empty(),
        }
    }

    pub fn shape(&self) -> Shape {
        let rights = if self.identity == Identity::HostRoot { Rights::All } else { Rights::None };
        Shape { processes: self.processes, rights }
    }
}

/// Which pid namespace the client is in: a new one, or the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Processes {
    Own,
    Host,
}

/// What a client sees when it sets its capabilities with capset(2). It has none in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Capabilities {
    /// The kernel's answer: setting capabilities that it does not have fails.
    #[default]
    None,
    /// Success. mount.cifs drops all but the few capabilities that it needs, and exits if it cannot have those.
    Pretended,
}

/// A file that the client finds at `inside`, owned by the client and readable only by it.
#[derive(Clone, Debug, Serialize)]
pub struct File {
    pub inside: PathBuf,
    pub content: Content,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    Text(String),
    /// The same with another mode than 0600, such as a program.
    TextWithMode(String, u32),
    /// Copied at launch, so that a plan never contains a secret.
    Host(PathBuf),
    /// Copied if it exists.
    HostIfThere(PathBuf),
    /// A secret, in the format that the client reads.
    Secret {
        secret: Secret,
        form: SecretForm,
    },
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Secret {
    /// Read at launch. May be a pipe.
    Host(PathBuf),
    /// Was among the caller's options.
    Given(Hidden),
}

/// A text that no log, error or plan shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(Vec<u8>);

impl Hidden {
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        Self(text.into())
    }

    /// The only way to read it.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("[hidden]")
    }
}

impl Serialize for Hidden {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str("[hidden]")
    }
}

/// The text before and after a secret in its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SecretForm {
    pub before: String,
    pub after: String,
    pub kind: SecretKind,
    /// Where a password goes if the client also accepts a password instead of its key.
    pub password_file: Option<PathBuf>,
}

/// What a client's secret is. Judged by its content, when it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretKind {
    #[default]
    Any,
    /// A private key, as ssh and TLS write them.
    Key,
    Password,
}

/// What a secret turned out to be.
pub fn is_private_key(secret: &[u8]) -> bool {
    const BEGIN: &[u8] = b"-----BEGIN ";
    const PUTTY: &[u8] = b"PuTTY-User-Key-File-";
    let start = secret.trim_ascii_start();
    start.starts_with(BEGIN) || start.starts_with(PUTTY)
}

impl SecretForm {
    pub const PLACE: &str = "{secret}";

    /// `None`: the text does not contain the placeholder exactly once.
    pub fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.split_once(Self::PLACE)?;
        let form = || Self { before: before.to_owned(), after: after.to_owned(), ..Self::default() };
        (!after.contains(Self::PLACE)).then(form)
    }

    /// Without surrounding text the secret is passed unchanged. Otherwise it must be a single line: a second line would
    /// be another setting to the client. `None`: it is more than one line.
    pub fn fill(&self, secret: &[u8]) -> Option<Vec<u8>> {
        if self.before.is_empty() && self.after.is_empty() {
            return Some(secret.to_vec());
        }
        let line = secret.strip_suffix(b"\n").unwrap_or(secret);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_one = !line.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0));
        is_one.then(|| [self.before.as_bytes(), line, self.after.as_bytes()].concat())
    }
}

/// The uids and gids of one sandbox on the host. No two sandboxes share any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ids {
    slot: u16,
    first_dedicated: u32,
}

/// Above the range that SSSD assigns to users of a domain by default (200,000 to 2,000,200,000), and far enough below
/// 2³¹.
const FIRST_DEDICATED: u32 = 2_100_000_000;
/// The previous start of the range: mounts that an older version made may still exist after an upgrade.
const FIRST_DEDICATED_BEFORE: u32 = 2_000_000_000;

/// Ids per user namespace: all that images use, 65534 included.
pub const IDS_PER_NAMESPACE: u32 = 65_536;

impl Ids {
    /// As many ranges as fit above 2³¹, where no distribution assigns uids: [`Ids::base`] cannot overflow.
    pub const SLOTS: u16 = 32_766;

    pub fn of_slot(slot: u16) -> Self {
        assert!(slot < Self::SLOTS, "slot out of range");
        Self { slot, first_dedicated: FIRST_DEDICATED }
    }

    /// The ids of a sandbox that an earlier version made. Its record has an id without a nonce.
    pub fn of_slot_before(slot: u16) -> Self {
        Self { first_dedicated: FIRST_DEDICATED_BEFORE, ..Self::of_slot(slot) }
    }

    pub fn base(self) -> u32 {
        (1 << 31) + u32::from(self.slot) * IDS_PER_NAMESPACE
    }

    /// The dedicated uid. Below 2³¹, for clients that print uids as signed numbers.
    pub fn dedicated(self) -> u32 {
        self.first_dedicated + 2 * u32::from(self.slot)
    }

    /// The client's uid on the host.
    pub fn client(self, identity: Identity) -> u32 {
        match identity {
            Identity::UserNamespace => self.base(),
            Identity::DedicatedUser => self.dedicated(),
            // Defined by the container, or the host's root.
            Identity::ContainerRoot | Identity::HostRoot => 0,
        }
    }

    /// The uid of the sandbox's pid 1 on the host. It differs from the client's, so that the client can neither signal
    /// nor trace pid 1.
    pub fn init(self, identity: Identity) -> u32 {
        match identity {
            Identity::UserNamespace => self.base() + INIT_INSIDE,
            Identity::DedicatedUser | Identity::ContainerRoot | Identity::HostRoot => self.dedicated() + 1,
        }
    }

    /// Those of the sandbox whose first process has this uid.
    pub fn of_first(uid: u32) -> Option<Self> {
        let slot = if uid >= 1 << 31 { (uid - (1 << 31)) / IDS_PER_NAMESPACE } else { uid.checked_sub(FIRST_DEDICATED)? / 2 };
        let ids = Self::of_slot(u16::try_from(slot).ok().filter(|slot| *slot < Self::SLOTS)?);
        [Identity::UserNamespace, Identity::DedicatedUser].iter().any(|identity| ids.init(*identity) == uid).then_some(ids)
    }

    /// The supplementary group that marks the client's processes where their uid does not identify them.
    pub fn mark(self) -> u32 {
        self.dedicated()
    }

    pub fn contain(self, uid: u32) -> bool {
        let namespace = self.base()..self.base() + IDS_PER_NAMESPACE;
        namespace.contains(&uid) || (self.dedicated()..=self.dedicated() + 1).contains(&uid)
    }
}

/// The uid of pid 1 inside the user namespace.
pub const INIT_INSIDE: u32 = 65_533;

impl File {
    /// Whether the file is below a directory that the sandbox provides, as opposed to one of the image.
    pub fn is_ours(&self) -> bool {
        ["/run", "/tmp", "/root", "/var", FILES].iter().any(|top| self.inside.starts_with(top))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_fills_its_form() {
        let form = |text| SecretForm::parse(text).unwrap();
        type Row = (&'static str, &'static [u8], Option<&'static [u8]>);
        let rows: [Row; 7] = [
            ("{secret}", b"a\nb\n", Some(b"a\nb\n")),
            ("password={secret}\n", b"p,w", Some(b"password=p,w\n")),
            ("password={secret}\n", b"pw\n", Some(b"password=pw\n")),
            ("password={secret}\n", b"pw\r\n", Some(b"password=pw\n")),
            ("password={secret}\n", b"", Some(b"password=\n")),
            ("password={secret}\n", b"pw\nusername=root", None),
            ("password={secret}\n", b"p\0w", None),
        ];
        for (text, secret, expected) in rows {
            assert_eq!(form(text).fill(secret).as_deref(), expected, "{text:?} {secret:?}");
        }
        assert_eq!(SecretForm::parse("none"), None);
        assert_eq!(SecretForm::parse("{secret}{secret}"), None);
    }

    #[test]
    fn a_hidden_text_is_not_printed() {
        let content = Content::Secret { secret: Secret::Given(Hidden::new("hunter2")), form: SecretForm::default() };
        assert!(!format!("{content:?} {content:#?}").contains("hunter2"));
    }

    #[test]
    fn dedicated_users_are_nobody_elses_and_can_be_printed_as_signed_numbers() {
        const LAST_OF_SSSD: u32 = 2_000_200_000;
        for slot in [0, Ids::SLOTS - 1] {
            let ids = Ids::of_slot(slot);
            assert!(ids.dedicated() > LAST_OF_SSSD && ids.init(Identity::DedicatedUser) < 1 << 31, "{slot}");
        }
    }

    #[test]
    fn no_two_sandboxes_share_an_id() {
        let ends = |slot| {
            let ids = Ids::of_slot(slot);
            [ids.base(), ids.base() + IDS_PER_NAMESPACE - 1, ids.dedicated(), ids.dedicated() + 1]
        };
        for slot in [0, 1, 100, Ids::SLOTS - 1] {
            assert!(ends(slot).iter().all(|id| Ids::of_slot(slot).contain(*id)));
            for other in [0, 1, 100, Ids::SLOTS - 1].into_iter().filter(|other| *other != slot) {
                assert!(ends(slot).iter().all(|id| !Ids::of_slot(other).contain(*id)), "{slot} {other}");
            }
        }
    }
}
