//! What to run, and in what kind of sandbox. Part of the plan: a value that one can print.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where things are inside, whatever they are called on the host.
pub const TARGET: &str = "/shorefast/target";
pub const SOURCE: &str = "/shorefast/source";
pub const FILES: &str = "/shorefast/files";

/// What a client can write inside, in bytes: big enough for the caches of known clients.
pub const DEFAULT_SCRATCH: u64 = 256 << 20;

#[derive(Clone, Debug)]
pub struct Spec {
    /// The helper and its arguments; the first is looked up on the image's PATH.
    pub command: Vec<OsString>,
    /// The name that it is told to have, if it is not the first word.
    pub arg0: Option<String>,
    pub environment: Vec<(String, String)>,
    pub identity: Identity,
    pub processes: Processes,
    pub capabilities: Capabilities,
    pub source: Option<HostSource>,
    pub files: Vec<File>,
    /// Things of the host that it sees as they are.
    pub shown: Vec<Shown>,
    /// Programs of the image in whose place a word to the broker stands.
    pub stand_ins: Vec<PathBuf>,
    pub role: Role,
    pub process_limits: ProcessLimits,
    pub scratch_bytes: u64,
}

/// Limits that need no control group, and so cost a mount nothing and hold on every host: the kernel counts the processes of a user, of
/// which each client has one of its own, and the memory of each process. `None`: no such limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// Of all processes and threads of the client's user (RLIMIT_NPROC).
    pub processes: Option<u64>,
    /// Of each process, what is its own and can be written to (RLIMIT_DATA).
    pub memory_bytes: Option<u64>,
}

impl Default for ProcessLimits {
    /// More than any known client takes at its busiest: 100 threads, each of whose stacks counts as 8 MiB, and a cache. Less than
    /// what keeps a host from working.
    fn default() -> Self {
        Self { processes: Some(4096), memory_bytes: Some(8 << 30) }
    }
}

impl ProcessLimits {
    /// A container's own hold, or it is the host's root.
    pub const NONE: Self = Self { processes: None, memory_bytes: None };
}

/// A host path that the client sees at [`SOURCE`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSource {
    pub path: PathBuf,
    pub access: SourceAccess,
    /// Shown read-only: nothing that the client does can change it.
    pub is_read_only: bool,
}

/// Whose permissions count when a client reaches for files of its source. It never has the right to override them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceAccess {
    /// Those for others: the client owns no file there but what it makes itself.
    #[default]
    AsOthers,
    /// Root's: its files are the client's to read and to write, and what the client makes belongs to root.
    AsRoot,
}

/// Something of the host, at `inside`, which is below a directory of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub what: Thing,
    pub inside: PathBuf,
}

/// It must be the sandbox's own, or for everybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    Directory(PathBuf),
    Socket(PathBuf),
    /// Where the kernel asks for RPC credentials on this host. Its directories are for everybody, its pipes for root.
    RpcPipefs,
}

/// What the sandbox is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Mounts: the broker hears its mount(2).
    Client,
    /// Runs beside mounts: while it starts, its bind(2) and its unix sockets are heard as well.
    Service,
    /// Runs beside mounts and answers the kernel: as long as it lives, its opening of pipes is heard.
    Answerer,
}

/// Who the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// Root of a user namespace of its own, nobody outside.
    UserNamespace,
    /// A user of the host that nothing else runs as.
    DedicatedUser,
    /// Root of a container that already runs, without its rights.
    ContainerRoot,
    /// The host's root with all its rights: it mounts by itself, and is trusted with everything.
    HostRoot,
}

/// What a sandbox cannot change any more once it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub processes: Processes,
    pub rights: Rights,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// None at all, and no way to get any.
    None,
    /// The host's root's; ipc and the host's name are shared as well.
    All,
}

impl Shape {
    /// What nearly every client gets.
    pub const USUAL: Self = Self { processes: Processes::Own, rights: Rights::None };
}

impl Spec {
    pub fn shape(&self) -> Shape {
        let rights = if self.identity == Identity::HostRoot { Rights::All } else { Rights::None };
        Shape { processes: self.processes, rights }
    }
}

/// Which processes the client sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Processes {
    Own,
    Host,
}

/// What a client hears that sets its capabilities. It has none in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Capabilities {
    /// The kernel's answer: those that it does not have, it cannot set.
    #[default]
    None,
    /// That it worked. mount.cifs gives up all but the few it needs, and ends if it lacks those.
    Pretended,
}

/// A file that the client finds at `inside`, its own and readable only by it.
#[derive(Clone, Debug, Serialize)]
pub struct File {
    pub inside: PathBuf,
    pub content: Content,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    Text(String),
    /// Copied at launch, so that a plan never holds a secret.
    Host(PathBuf),
    /// Copied if it is there.
    HostIfThere(PathBuf),
    /// A secret, in the form in which the client wants to read it.
    Secret {
        secret: Secret,
        form: SecretForm,
    },
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Secret {
    /// Read at launch; may be a pipe.
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

    /// For who hands it on.
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

/// What stands before and after a secret in its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SecretForm {
    pub before: String,
    pub after: String,
}

impl SecretForm {
    pub const PLACE: &str = "{secret}";

    /// `None`: the text has no place for the secret, or more than one.
    pub fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.split_once(Self::PLACE)?;
        (!after.contains(Self::PLACE)).then(|| Self { before: before.to_owned(), after: after.to_owned() })
    }

    /// A secret that stands alone is passed as it is. Among other text, it is one line: a second one
    /// would say something else to the client. `None`: it is more than a line.
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

/// The host's ids of one sandbox. No two sandboxes share any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ids {
    slot: u16,
    first_dedicated: u32,
}

/// Above what SSSD gives to users of a domain by default (200,000 to 2,000,200,000), and far enough below 2³¹.
const FIRST_DEDICATED: u32 = 2_100_000_000;
/// Where they were before: mounts that an older version made may still be there after an upgrade.
const FIRST_DEDICATED_BEFORE: u32 = 2_000_000_000;

/// Ids per user namespace: what images use, nobody (65534) included.
pub const IDS_PER_NAMESPACE: u32 = 65_536;

impl Ids {
    /// As many as fit above 2³¹, where no distribution puts users: [`Ids::base`] stays in range.
    pub const SLOTS: u16 = 32_766;

    pub fn of_slot(slot: u16) -> Self {
        assert!(slot < Self::SLOTS, "slot out of range");
        Self { slot, first_dedicated: FIRST_DEDICATED }
    }

    /// Those of a sandbox that an earlier build made: its record has an id without a nonce.
    pub fn of_slot_before(slot: u16) -> Self {
        Self { first_dedicated: FIRST_DEDICATED_BEFORE, ..Self::of_slot(slot) }
    }

    /// The first id of the sandbox's user namespace.
    pub fn base(self) -> u32 {
        (1 << 31) + u32::from(self.slot) * IDS_PER_NAMESPACE
    }

    /// The dedicated user, below 2³¹ for clients that print ids as signed numbers.
    pub fn dedicated(self) -> u32 {
        self.first_dedicated + 2 * u32::from(self.slot)
    }

    /// The client's user on the host.
    pub fn client(self, identity: Identity) -> u32 {
        match identity {
            Identity::UserNamespace => self.base(),
            Identity::DedicatedUser => self.dedicated(),
            // The container's matter, or the host's own.
            Identity::ContainerRoot | Identity::HostRoot => 0,
        }
    }

    /// Pid 1's user on the host: another one, so that the client has no hold on it.
    pub fn init(self, identity: Identity) -> u32 {
        match identity {
            Identity::UserNamespace => self.base() + INIT_INSIDE,
            Identity::DedicatedUser | Identity::ContainerRoot | Identity::HostRoot => self.dedicated() + 1,
        }
    }

    /// A group of the client's processes where their user says nothing.
    pub fn mark(self) -> u32 {
        self.dedicated()
    }

    /// Whether a process with this uid belongs to the sandbox.
    pub fn contain(self, uid: u32) -> bool {
        let namespace = self.base()..self.base() + IDS_PER_NAMESPACE;
        namespace.contains(&uid) || (self.dedicated()..=self.dedicated() + 1).contains(&uid)
    }
}

/// Pid 1's uid as seen in the user namespace.
pub const INIT_INSIDE: u32 = 65_533;

impl File {
    /// Whether the file stands where only we decide what is there, in contrast to the image.
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
