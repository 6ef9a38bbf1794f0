//! In: the TOML text of client files. Out: a checked client definition. A file may set only some keys: the rest comes from the built-in
//! definition of the same name, then from the defaults. Hence two types: a [`Layer`], in which everything is optional, and the
//! [`Definition`] that results.

mod mistakes;
mod services;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use shorefast_runtimes::Selector;
use shorefast_sandbox::cgroup::Limits;
use shorefast_sandbox::spec::{Capabilities, Content, DEFAULT_SCRATCH, File, ProcessLimits, SecretForm, SecretKind, SourceAccess};

use crate::mode::Mode;

pub use services::{Service, Services, grant};

/// A complete definition, checked.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Filesystem types, as in `mount -t`.
    pub types: Vec<String>,
    pub image: Option<String>,
    /// For mode exec.
    pub container: Option<Selector>,
    /// Where the client runs, if the definition has a preference.
    pub mode: Option<Mode>,
    pub command: Vec<String>,
    /// The helper's argv[0], if it is not its file name.
    pub arg0: Option<String>,
    pub kernel_types: Vec<String>,
    /// By type: what the client may pass to the kernel without the caller having asked for it, besides what is built in.
    pub kernel_options: BTreeMap<String, Vec<String>>,
    pub services: Vec<Services>,
    pub source: Source,
    /// What the client may do with the source path.
    pub source_access: SourceAccess,
    /// How the client writes to a source that is a file; not known unless the definition says it.
    pub source_writes: Option<SourceWrites>,
    /// Options that the client always gets, whatever the caller passes: `name` or `name=value`.
    pub options: Vec<String>,
    pub files: Vec<String>,
    pub secret: Option<SecretWay>,
    /// The option that says which group files belong to.
    pub group_option: Option<String>,
    /// Whether volumes that a pod's author writes may use it.
    pub guests: Guests,
    pub namespaces: Namespaces,
    pub capabilities: Capabilities,
    /// Through cgroups: the limits that the definition sets.
    pub limits: Limits,
    /// Through rlimits: for limits that the definition does not set.
    pub process_limits: ProcessLimits,
    /// The size of all that the client can write inside its sandbox.
    pub scratch_bytes: u64,
    pub mounts: u32,
    pub daemon: Daemon,
    pub on_exit: OnExit,
    /// Exit statuses other than 0 with which the client ends when all is well.
    pub ends_with: Vec<i32>,
    pub env: BTreeMap<String, String>,
    pub provide: BTreeMap<PathBuf, Provided>,
    /// By the path inside: files of the host that the client gets a copy of, if they are there.
    pub host_files: BTreeMap<PathBuf, PathBuf>,
    /// Files to which the client adds lines that its next mounts know.
    pub remember: Vec<PathBuf>,
    /// A line that mounts something, with what has to be there before, for people.
    pub example: Option<String>,
}

/// A definition as it is written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Layer {
    pub types: Option<Vec<String>>,
    pub image: Option<String>,
    pub container: Option<String>,
    pub mode: Option<Mode>,
    pub command: Option<Vec<String>>,
    pub arg0: Option<String>,
    pub kernel_types: Option<Vec<String>>,
    pub services: Option<Vec<Services>>,
    pub source: Option<Source>,
    pub source_access: Option<SourceAccess>,
    pub source_writes: Option<SourceWrites>,
    pub options: Option<Vec<String>>,
    pub files: Option<Vec<String>>,
    pub secret: Option<SecretLayer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_option: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guests: Option<Guests>,
    pub capabilities: Option<Capabilities>,
    pub mounts: Option<u32>,
    pub daemon: Option<Daemon>,
    pub on_exit: Option<OnExit>,
    pub ends_with: Option<Vec<i32>>,
    #[serde(skip_serializing_if = "NamespaceLayer::is_empty")]
    pub namespaces: NamespaceLayer,
    #[serde(skip_serializing_if = "LimitLayer::is_empty")]
    pub limits: LimitLayer,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kernel_options: BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub provide: BTreeMap<PathBuf, Provided>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub host_files: BTreeMap<PathBuf, PathBuf>,
    pub remember: Option<Vec<PathBuf>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

/// How the client gets its secret: always in a separate file, never as an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretWay {
    /// Options whose value is the secret: removed from the helper's arguments.
    pub from_options: Vec<String>,
    /// The option that tells the helper the path of the file.
    pub to_option: Option<String>,
    /// The path at which the helper looks by default.
    pub to_file: Option<PathBuf>,
    pub form: SecretForm,
    /// Options that come with a secret and are none, such as the name of its user.
    pub with_options: Vec<String>,
}

/// A small file: its content, or that with a mode.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Provided {
    Text(String),
    WithMode(ProvidedFile),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProvidedFile {
    pub content: String,
    /// Octal, such as "0700".
    pub mode: String,
}

impl Provided {
    pub fn content(&self) -> Content {
        match self {
            Self::Text(text) => Content::Text(text.clone()),
            // The mode was checked with the definition.
            Self::WithMode(file) => Content::TextWithMode(file.content.clone(), parse_mode(&file.mode).unwrap_or(0o600)),
        }
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Self::Text(_) => Ok(()),
            Self::WithMode(file) => parse_mode(&file.mode).map(drop),
        }
    }
}

/// Permissions only: no set-uid, set-gid or sticky bit.
fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("key `provide`: {text:?} is no mode: write \"0600\" or \"0700\""))
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecretLayer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is: Option<SecretKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    pub from_options: Option<Vec<String>>,
    pub to_option: Option<String>,
    pub to_file: Option<PathBuf>,
    pub form: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_options: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct NamespaceLayer {
    pub pid: Option<Namespace>,
    pub user: Option<Namespace>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitLayer {
    pub memory: Option<String>,
    pub pids: Option<u64>,
    pub cpu: Option<f64>,
    pub scratch: Option<String>,
}

/// What the mount's source is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A name that only the client understands.
    #[default]
    Remote,
    /// A host path that is visible to the client.
    Path,
}

/// How a client writes to the file that is its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceWrites {
    /// It writes into the file.
    InPlace,
    /// It writes a new file beside it and renames that: the client gets to see the source's directory.
    Replace,
}

#[derive(Clone, Copy, Debug)]
pub struct Namespaces {
    pub pid: Namespace,
    pub user: Namespace,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Namespace {
    #[default]
    Private,
    Host,
}

/// Whether people who are no administrators may have mounts of this client ([`Author::Guest`](crate::request::Author)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Guests {
    #[default]
    Allowed,
    Refused,
}

/// How the helper behaves once it has mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Daemon {
    /// It exits; the daemon that serves was forked.
    #[default]
    Forks,
    /// It serves itself and exits at the end.
    Foreground,
}

/// What happens to the mount when its client dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnExit {
    /// The mount is detached: an empty directory is better than errors.
    #[default]
    Detach,
    /// The mount stays, dead: errors are better than writes to the directory below it.
    Keep,
}

/// Parses a definition that is not layered over another; the error names line and key.
pub fn parse(text: &str) -> Result<Definition, String> {
    Layer::parse(text)?.complete()
}

impl Layer {
    /// The error names line and key of each mistake, and suggests the key that was probably meant.
    pub fn parse(text: &str) -> Result<Self, String> {
        // Whether something is missing cannot be said of what is left of a file.
        let others = |rest: Self| {
            let others = rest.complete().err().unwrap_or_default();
            others.lines().filter(|line| !line.contains("`types`")).map(str::to_owned).collect()
        };
        mistakes::parse(text, others)
    }

    /// Merges this layer over `below`.
    pub fn over(self, below: Self) -> Self {
        Self {
            types: self.types.or(below.types),
            image: self.image.or(below.image),
            container: self.container.or(below.container),
            mode: self.mode.or(below.mode),
            command: self.command.or(below.command),
            arg0: self.arg0.or(below.arg0),
            kernel_types: self.kernel_types.or(below.kernel_types),
            services: self.services.or(below.services),
            source: self.source.or(below.source),
            source_access: self.source_access.or(below.source_access),
            source_writes: self.source_writes.or(below.source_writes),
            options: self.options.or(below.options),
            files: self.files.or(below.files),
            secret: self.secret.or(below.secret),
            group_option: self.group_option.or(below.group_option),
            guests: self.guests.or(below.guests),
            capabilities: self.capabilities.or(below.capabilities),
            mounts: self.mounts.or(below.mounts),
            daemon: self.daemon.or(below.daemon),
            on_exit: self.on_exit.or(below.on_exit),
            ends_with: self.ends_with.or(below.ends_with),
            namespaces: NamespaceLayer {
                pid: self.namespaces.pid.or(below.namespaces.pid),
                user: self.namespaces.user.or(below.namespaces.user),
            },
            limits: LimitLayer {
                memory: self.limits.memory.or(below.limits.memory),
                pids: self.limits.pids.or(below.limits.pids),
                cpu: self.limits.cpu.or(below.limits.cpu),
                scratch: self.limits.scratch.or(below.limits.scratch),
            },
            kernel_options: below.kernel_options.into_iter().chain(self.kernel_options).collect(),
            env: below.env.into_iter().chain(self.env).collect(),
            provide: below.provide.into_iter().chain(self.provide).collect(),
            host_files: below.host_files.into_iter().chain(self.host_files).collect(),
            remember: self.remember.or(below.remember),
            example: self.example.or(below.example),
        }
    }

    /// Names of options whose value is a secret.
    pub fn secret_options(&self) -> &[String] {
        self.secret.as_ref().and_then(|secret| secret.from_options.as_deref()).unwrap_or_default()
    }

    /// The error has a line for each mistake.
    pub fn complete(self) -> Result<Definition, String> {
        let mut mistakes = Vec::new();
        let types = self.types.unwrap_or_default();
        if types.is_empty() {
            mistakes.push("key `types`: at least one filesystem type is needed".to_owned());
        }
        let command = self.command.unwrap_or_else(default_command);
        check_command(&command, &mut mistakes);
        let mounts = self.mounts.unwrap_or(1);
        if mounts == 0 {
            mistakes.push("key `mounts`: at least 1 is needed".to_owned());
        }
        let remember = self.remember.unwrap_or_default();
        mistakes.extend(self.provide.values().filter_map(|provided| provided.check().err()));
        let provided = self.provide.keys().map(|path| check_provided(path, "provide"));
        let remembered = remember.iter().map(|path| check_provided(path, "remember"));
        let host_files = self.host_files.keys().map(|path| check_provided(path, "host_files"));
        mistakes.extend(provided.chain(remembered).chain(host_files).filter_map(Result::err));
        let relative = self.host_files.values().filter(|path| !path.is_absolute());
        mistakes.extend(relative.map(|path| format!("key `host_files`: {path:?} is not an absolute path")));
        let kernel_types = self.kernel_types.unwrap_or_else(|| vec!["fuse".to_owned()]);
        note(check_kernel_options(&kernel_types, &self.kernel_options), &mut mistakes);
        let namespaces = note(self.namespaces.complete(), &mut mistakes);
        if let Some(namespaces) = namespaces {
            note(check_source_access(self.source_access, self.source.unwrap_or_default(), namespaces), &mut mistakes);
        }
        if self.source_writes.is_some() && self.source.unwrap_or_default() != Source::Path {
            let problem = "key `source_writes`: needs source = \"path\", without which the client sees no files of the host";
            mistakes.push(problem.to_owned());
        }
        let of_limits = |problem| format!("key `limits`: {problem}");
        let of_container = |error: shorefast_runtimes::Malformed| format!("key `container`: {error}");
        let container = note(self.container.map(|text| text.parse()).transpose().map_err(of_container), &mut mistakes);
        let services = self.services.unwrap_or_default().into_iter().map(Services::checked).collect::<Result<_, _>>();
        let services = note(services, &mut mistakes);
        let secret = note(self.secret.map(SecretLayer::complete).transpose(), &mut mistakes);
        let limits = note(self.limits.limits().map_err(of_limits), &mut mistakes);
        let scratch = self.limits.scratch.as_deref().map_or(Ok(DEFAULT_SCRATCH), parse_size).map_err(of_limits);
        let scratch_bytes = note(scratch, &mut mistakes);
        let (Some(namespaces), Some(container), Some(services), Some(secret), Some(limits), Some(scratch_bytes), []) =
            (namespaces, container, services, secret, limits, scratch_bytes, mistakes.as_slice())
        else {
            return Err(mistakes.join("\n"));
        };
        Ok(Definition {
            types,
            image: self.image,
            container,
            mode: self.mode,
            command,
            arg0: self.arg0,
            kernel_types,
            kernel_options: self.kernel_options,
            services,
            source: self.source.unwrap_or_default(),
            source_access: self.source_access.unwrap_or_default(),
            source_writes: self.source_writes,
            options: self.options.unwrap_or_default(),
            files: self.files.unwrap_or_default(),
            secret,
            group_option: self.group_option,
            guests: self.guests.unwrap_or_default(),
            namespaces,
            capabilities: self.capabilities.unwrap_or_default(),
            limits,
            process_limits: self.limits.process_limits(),
            scratch_bytes,
            mounts,
            daemon: self.daemon.unwrap_or_default(),
            on_exit: self.on_exit.unwrap_or_default(),
            ends_with: self.ends_with.unwrap_or_default(),
            env: self.env,
            provide: self.provide,
            host_files: self.host_files,
            remember,
            example: self.example,
        })
    }
}

impl Definition {
    /// Not a mistake that keeps it from being used: what whoever wrote it probably did not mean.
    pub fn doubts(&self) -> Vec<String> {
        let takes_options = self.command.iter().any(|word| word.contains("{options}"));
        let dropped = "key `command`: no word holds {options}, so the options of a mount would not reach the client";
        if takes_options { Vec::new() } else { vec![dropped.to_owned()] }
    }
}

/// The value, or its mistake among the others.
fn note<T>(checked: Result<T, String>, mistakes: &mut Vec<String>) -> Option<T> {
    checked.map_err(|problem| mistakes.push(problem)).ok()
}

fn check_command(command: &[String], mistakes: &mut Vec<String>) {
    if command.first().is_none_or(|helper| helper.is_empty()) {
        mistakes.push("key `command`: at least the helper is needed".to_owned());
    } else if !command.iter().any(|word| word.contains("{target}")) {
        mistakes.push("key `command`: no word holds {target}, so nothing could be mounted".to_owned());
    }
    mistakes.extend(command.iter().filter_map(|word| mistakes::unknown_place(word)).map(mistakes::about_place));
}

impl SecretLayer {
    fn complete(self) -> Result<SecretWay, String> {
        if self.to_option.is_none() && self.to_file.is_none() {
            return Err("key `secret`: `to_option` or `to_file` is needed: it tells the client where the secret is".into());
        }
        self.to_file.iter().chain(&self.password_file).try_for_each(|path| check_provided(path, "secret"))?;
        let kind = self.is.unwrap_or_default();
        if self.password_file.is_some() && kind != SecretKind::Key {
            return Err("key `secret`: `password_file` needs is = \"key\": it is where a password goes instead".into());
        }
        let form = self.form.as_deref().unwrap_or(SecretForm::PLACE);
        let form = SecretForm::parse(form).ok_or_else(|| format!("key `secret`: `form` needs {} once", SecretForm::PLACE))?;
        let form = SecretForm { kind, password_file: self.password_file, ..form };
        Ok(SecretWay {
            from_options: self.from_options.unwrap_or_default(),
            to_option: self.to_option,
            to_file: self.to_file,
            form,
            with_options: self.with_options.unwrap_or_default(),
        })
    }
}

impl NamespaceLayer {
    fn is_empty(&self) -> bool {
        self.pid.is_none() && self.user.is_none()
    }

    fn complete(self) -> Result<Namespaces, String> {
        let pid = self.pid.unwrap_or_default();
        if pid == Namespace::Host && self.user == Some(Namespace::Private) {
            return Err(
                "key `namespaces`: pid = \"host\" cannot go with user = \"private\" (the client would see host processes under wrong ids)"
                    .into(),
            );
        }
        Ok(Namespaces { pid, user: self.user.unwrap_or(pid) })
    }
}

impl LimitLayer {
    fn is_empty(&self) -> bool {
        self.memory.is_none() && self.pids.is_none() && self.cpu.is_none() && self.scratch.is_none()
    }

    /// A cgroup limit in the definition replaces the default rlimit.
    fn process_limits(&self) -> ProcessLimits {
        let default = ProcessLimits::default();
        ProcessLimits {
            processes: default.processes.filter(|_| self.pids.is_none()),
            memory_bytes: default.memory_bytes.filter(|_| self.memory.is_none()),
        }
    }

    fn limits(&self) -> Result<Limits, String> {
        let memory_bytes = self.memory.as_deref().filter(|text| *text != UNLIMITED).map(parse_size).transpose()?;
        if self.cpu.is_some_and(|count| !count.is_finite() || count < 0.01) {
            return Err("cpu is a number of processors, at least 0.01".to_owned());
        }
        Ok(Limits { memory_bytes, processes: self.pids, processors: self.cpu })
    }
}

fn check_source_access(access: Option<SourceAccess>, source: Source, namespaces: Namespaces) -> Result<(), String> {
    match (access, source, namespaces.user) {
        (Some(_), Source::Remote, _) => {
            Err("key `source_access`: needs source = \"path\", without which the client sees no files of the host".into())
        }
        (Some(SourceAccess::AsRoot), Source::Path, Namespace::Host) => {
            Err("key `source_access`: \"as-root\" needs namespaces = { user = \"private\" } (a dedicated user owns no file of root's)"
                .into())
        }
        _ => Ok(()),
    }
}

/// As a memory limit: no limit, not even the default.
const UNLIMITED: &str = "unlimited";

fn default_command() -> Vec<String> {
    ["mount", "-t", "{type}", "{flags}", "-o", "{options}", "{source}", "{target}"].map(str::to_owned).to_vec()
}

fn check_kernel_options(types: &[String], options: &BTreeMap<String, Vec<String>>) -> Result<(), String> {
    for (fstype, options) in options {
        if !types.contains(fstype) || fstype.split('.').next() == Some("fuse") {
            return Err(format!("key `kernel_options`: {fstype:?} is not in kernel_types, or is FUSE, which takes no other options"));
        }
        let is_bad = |option: &&String| option.is_empty() || option.starts_with(['*', '=']) || option.contains(',');
        if let Some(bad) = options.iter().find(is_bad) {
            return Err(format!("key `kernel_options`: {bad:?} is not of the form KEY, KEY=VALUE or KEY*"));
        }
    }
    Ok(())
}

fn check_provided(path: &Path, key: &str) -> Result<(), String> {
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let file = File { inside: path.to_owned(), content: Content::Text(String::new()) };
    if path.is_absolute() && is_plain && (file.is_ours() || path.starts_with("/etc")) {
        Ok(())
    } else {
        Err(format!("key `{key}`: {path:?} is not an absolute path below /etc, /root, /run, /tmp or /var/lib"))
    }
}

/// `512M`, `1G`, `65536`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.strip_suffix(['K', 'M', 'G', 'T']) {
        Some(digits) => (digits, 10 * (1 + "KMGT".find(&text[digits.len()..]).unwrap_or(0))),
        None => (text, 0),
    };
    let number: Option<u64> = digits.parse().ok();
    let bytes = number.and_then(|number| number.checked_mul(1 << shift)).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| format!("{text:?} is no size: write 65536, 512M or 1G"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_definition_has_sensible_defaults() {
        let definition = parse("types = [\"sshfs\"]").unwrap();
        assert_eq!(definition.command[0], "mount");
        assert_eq!(definition.kernel_types, ["fuse"]);
        assert_eq!(definition.scratch_bytes, DEFAULT_SCRATCH);
        assert_eq!(definition.namespaces.user, Namespace::Private);
    }

    const AS_ROOT_AND_DEDICATED: &str = "types = [\"a\"]\nsource = \"path\"\nsource_access = \"as-root\"\nnamespaces = { user = \"host\" }";

    const SERVICE: &str =
        "[[services]]\nasked_by = \"/bin/ask\"\nused_with = []\n[[services.run]]\nname = \"a\"\ncommand = [\"a\"]\nprogram = 1\n";

    #[test]
    fn mistakes_are_named() {
        let with_service = ["binds = [\"99999\"]", "state = \"/etc\"", "binds = [\"rpc_pipefs\"]", "copies = [\"/usr/bin/x\"]"]
            .map(|key| format!("types = [\"a\"]\n{SERVICE}{key}\n"));
        let rows = [
            ("an unknown key", "types = [\"a\"]\ntpyes = 1", "line 2"),
            ("a key that looks like one", "types = [\"a\"]\ntpyes = 1", "did you mean `types`?"),
            ("an inner key that looks like one", "types = [\"a\"]\nlimits = { memroy = \"1G\" }", "did you mean `memory`?"),
            ("a wrong type of value", "types = \"a\"", "line 1"),
            ("no types", "types = []", "`types`"),
            ("nothing to run", "types = [\"a\"]\ncommand = []", "`command`"),
            ("no target in the command", "types = [\"a\"]\ncommand = [\"x\"]", "{target}"),
            ("options of a foreign type", "types = [\"a\"]\nkernel_types = [\"x\"]\nkernel_options = { y = [\"z\"] }", "kernel_options"),
            ("any option", "types = [\"a\"]\nkernel_types = [\"x\"]\nkernel_options = { x = [\"*\"] }", "KEY*"),
            ("a size that is none", "types = [\"a\"]\nlimits = { memory = \"lots\" }", "lots"),
            ("a size of nothing", "types = [\"a\"]\nlimits = { memory = \"0\" }", "no size"),
            ("a size that overflows", "types = [\"a\"]\nlimits = { memory = \"99999999999T\" }", "no size"),
            ("host pids with private users", "types = [\"a\"]\nnamespaces = { pid = \"host\", user = \"private\" }", "namespaces"),
            ("a way to reach what is not there", "types = [\"a\"]\nsource_access = \"as-root\"", "`source_access`"),
            ("a file of the host at no place", "types = [\"a\"]\nhost_files = { \"/usr/x\" = \"/x\" }", "`host_files`"),
            ("a file of the host without a path", "types = [\"a\"]\nhost_files = { \"/etc/x\" = \"x\" }", "`host_files`"),
            ("a memory outside", "types = [\"a\"]\nremember = [\"/usr/../etc/x\"]", "`remember`"),
            ("writes to what is not there", "types = [\"a\"]\nsource_writes = \"replace\"", "`source_writes`"),
            ("root's files for a dedicated user", AS_ROOT_AND_DEDICATED, "`source_access`"),
            ("a container that cannot be", "types = [\"a\"]\ncontainer = \"a b\"", "`container`"),
            ("a file over the image's programs", "types = [\"a\"]\nprovide = { \"/usr/bin/x\" = \"\" }", "provide"),
            ("a service at a port that is none", with_service[0].as_str(), "99999"),
            ("a service's state anywhere", with_service[1].as_str(), "services"),
            ("a service that is known to run by two signs", with_service[2].as_str(), "`program`"),
            ("a service with a copy of anything", with_service[3].as_str(), "provide"),
            ("a secret without a place to go", "types = [\"a\"]\nsecret = { from_options = [\"password\"] }", "`to_option`"),
            ("a secret over the image's programs", "types = [\"a\"]\nsecret = { to_file = \"/usr/x\" }", "`secret`"),
            ("a mode that is none", "types = [\"a\"]\nprovide = { \"/etc/x\" = { content = \"\", mode = \"4755\" } }", "is no mode"),
            (
                "a password for who wants no key",
                "types = [\"a\"]\nsecret = { to_option = \"x\", password_file = \"/root/x\" }",
                "`password_file`",
            ),
            ("a form without a secret", "types = [\"a\"]\nsecret = { to_option = \"x\", form = \"y\" }", "{secret}"),
            ("a file that climbs", "types = [\"a\"]\nprovide = { \"/etc/../usr/x\" = \"\" }", "provide"),
        ];
        for (name, text, part) in rows {
            let problem = parse(text).expect_err(name);
            assert!(problem.contains(part), "{name}: {problem}");
        }
        let problem = parse("types = [\"a\"]\nzzzzzz = 1").unwrap_err();
        assert!(!problem.contains("did you mean"), "{problem}");
    }

    #[test]
    fn all_mistakes_are_named_at_once() {
        let text = "tpyes = [\"a\"]\nmounts = \"x\"\nlimits = { memroy = \"1G\", pids = 5 }\ncommand = [\"m\", \"{src}\", \"{target}\"]\n[namespaces]\nuser = \"mine\"\n";
        let problem = Layer::parse(text).unwrap_err();
        for part in ["line 1", "`types`?", "line 2", "line 3", "`memory`?", "{src}", "line 6", "`mine`"] {
            assert!(problem.contains(part), "{part}: {problem}");
        }
    }

    #[test]
    fn one_mistake_is_one() {
        let problem = Layer::parse("types = [\"a\"]\nmounst = 2\n").unwrap_err();
        assert_eq!(problem.matches("TOML parse error").count(), 1, "{problem}");
        assert!(Layer::parse("types = [\"a\"\nmounts = 2\n").is_err(), "what is no TOML is not corrected");
    }

    #[test]
    fn a_layer_overrides_key_by_key() {
        let below =
            Layer::parse("types = [\"a\"]\nimage = \"dir:/a\"\nlimits = { memory = \"1G\", pids = 5 }\nenv = { A = \"1\", B = \"1\" }\n");
        let above = Layer::parse("image = \"dir:/b\"\nlimits = { pids = 7 }\nenv = { B = \"2\" }\n");
        let definition = above.unwrap().over(below.unwrap()).complete().unwrap();
        assert_eq!(definition.types, ["a"]);
        assert_eq!(definition.image.as_deref(), Some("dir:/b"));
        assert_eq!((definition.limits.memory_bytes, definition.limits.processes), (Some(1 << 30), Some(7)));
        assert_eq!(definition.env.into_iter().collect::<Vec<_>>(), [("A".into(), "1".into()), ("B".into(), "2".into())]);
    }

    #[test]
    fn a_limit_replaces_the_default() {
        let limits = |text: &str| {
            let definition = parse(&format!("types = [\"a\"]\nlimits = {{ {text} }}")).unwrap();
            let both = |group: Option<u64>, process: Option<u64>| (group, process.is_some());
            let (group, process) = (definition.limits, definition.process_limits);
            [both(group.memory_bytes, process.memory_bytes), both(group.processes, process.processes)]
        };
        assert_eq!(limits(""), [(None, true), (None, true)]);
        assert_eq!(limits("memory = \"1G\""), [(Some(1 << 30), false), (None, true)]);
        assert_eq!(limits("pids = 9"), [(None, true), (Some(9), false)]);
        assert_eq!(limits("memory = \"unlimited\""), [(None, false), (None, true)]);
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("65536"), Ok(65536));
        assert_eq!(parse_size("4K"), Ok(4096));
        assert_eq!(parse_size("512M"), Ok(512 << 20));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
    }
}
