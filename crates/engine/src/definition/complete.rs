//! In: a [`Layer`]. Out: the [`Definition`] that results, or a line for each mistake.

use std::collections::BTreeMap;
use std::path::PathBuf;

use shorefast_runtimes::Selector;
use shorefast_sandbox::cgroup::Limits;
use shorefast_sandbox::spec::{Capabilities, DEFAULT_SCRATCH, ProcessLimits, SecretForm, SecretKind, SourceAccess};

use crate::definition::keys::{
    Daemon, Guests, Namespace, Namespaces, Provided, SecretWay, Source, SourceWrites, check_provided, parse_size,
};
use crate::definition::layer::{Layer, LimitLayer, NamespaceLayer, SecretLayer};
use crate::definition::mistakes;
use crate::definition::services::Services;
use crate::exit_policy::{HealPolicy, OnExit};
use crate::mode::Mode;

/// A complete definition, checked.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Filesystem types, as in `mount -t`.
    pub types: Vec<String>,
    pub image: Option<String>,
    /// A file of public keys, of which one must have signed the image.
    pub signed_by: Option<PathBuf>,
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
    /// Options that name a file with a token of the pod's service account, and for which audience that is.
    pub tokens: BTreeMap<String, String>,
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
    pub heal: HealPolicy,
    /// Must not run twice at once, not even for the moment of an upgrade: it has state of its own.
    pub exclusive: bool,
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

impl Layer {
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
        if let Some(path) = self.signed_by.as_ref().filter(|path| !path.is_absolute()) {
            mistakes.push(format!("key `signed_by`: {path:?} is not an absolute path"));
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
        let heal = note(self.heal.complete(), &mut mistakes);
        let (Some(namespaces), Some(container), Some(services), Some(secret), Some(limits), Some(scratch_bytes), Some(heal), []) =
            (namespaces, container, services, secret, limits, scratch_bytes, heal, mistakes.as_slice())
        else {
            return Err(mistakes.join("\n"));
        };
        Ok(Definition {
            types,
            image: self.image,
            signed_by: self.signed_by,
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
            tokens: self.tokens,
            guests: self.guests.unwrap_or_default(),
            namespaces,
            capabilities: self.capabilities.unwrap_or_default(),
            limits,
            process_limits: self.limits.process_limits(),
            scratch_bytes,
            mounts,
            daemon: self.daemon.unwrap_or_default(),
            on_exit: self.on_exit.unwrap_or_default(),
            heal,
            exclusive: self.exclusive.unwrap_or_default(),
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
