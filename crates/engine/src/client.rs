//! Client definitions: how one or more filesystem types are mounted. All that differs between
//! clients is in these files; no code knows a client by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use shorefast_sandbox::cgroup::Limits;
use shorefast_sandbox::spec::DEFAULT_SCRATCH;

use crate::error::Error;
use crate::request::ClientChoice;

/// Where an administrator or a vendor drops definitions.
pub const DIRECTORY: &str = "/etc/shorefast/clients.d";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Filesystem types, as in `mount -t`.
    pub types: Vec<String>,
    pub image: Option<String>,
    #[serde(default)]
    pub mode: Mode,
    #[serde(default = "default_command")]
    pub command: Vec<String>,
    #[serde(default = "default_kernel_types")]
    pub kernel_types: Vec<String>,
    #[serde(default)]
    pub source: Source,
    #[serde(default)]
    pub files: Vec<String>,
    #[serde(default)]
    pub namespaces: Namespaces,
    #[serde(default)]
    pub limits: LimitTexts,
    #[serde(default = "one")]
    pub mounts: u32,
    #[serde(default)]
    pub daemon: Daemon,
    #[serde(default)]
    pub on_exit: OnExit,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    pub provide: BTreeMap<PathBuf, String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Container,
}

/// What the mount's source is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A name that only the client understands.
    #[default]
    Remote,
    /// A host path that the client gets to see.
    Path,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Namespaces {
    #[serde(default)]
    pub pid: Namespace,
    pub user: Option<Namespace>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Namespace {
    #[default]
    Private,
    Host,
}

/// How the helper behaves once it has mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Daemon {
    /// It exits; whatever serves was forked off.
    #[default]
    Forks,
    /// It serves itself and exits at the end.
    Foreground,
}

/// What happens to the mount when its client dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnExit {
    /// It goes too: an empty directory is better than errors.
    #[default]
    Detach,
    /// It stays, dead: errors are better than writing below it.
    Keep,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitTexts {
    pub memory: Option<String>,
    pub pids: Option<u64>,
    pub cpu: Option<f64>,
    /// The size of all that the client can write inside.
    pub scratch: Option<String>,
}

fn default_command() -> Vec<String> {
    ["mount", "-t", "{type}", "-o", "{options}", "{source}", "{target}"].map(str::to_owned).to_vec()
}

fn default_kernel_types() -> Vec<String> {
    vec!["fuse".to_owned()]
}

fn one() -> u32 {
    1
}

impl LimitTexts {
    pub fn limits(&self) -> Result<Limits, String> {
        let memory_bytes = self.memory.as_deref().map(parse_size).transpose()?;
        if self.cpu.is_some_and(|count| !count.is_finite() || count < 0.01) {
            return Err("limits.cpu is a number of processors, at least 0.01".to_owned());
        }
        Ok(Limits { memory_bytes, processes: self.pids, processors: self.cpu })
    }

    pub fn scratch_bytes(&self) -> Result<u64, String> {
        self.scratch.as_deref().map_or(Ok(DEFAULT_SCRATCH), parse_size)
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

/// A definition and where it came from.
#[derive(Clone, Debug)]
pub struct Client {
    pub name: String,
    pub file: PathBuf,
    pub definition: Definition,
}

/// Finds the definition for a request.
pub fn find(choice: &ClientChoice, fstype: Option<&str>, directory: &Path) -> Result<Client, Error> {
    match choice {
        ClientChoice::File(file) => load(file),
        ClientChoice::Named(name) => {
            let file = directory.join(format!("{name}.toml"));
            if file.is_file() {
                load(&file)
            } else {
                Err(Error::UnknownClient { name: name.clone(), looked_at: files(directory)?, directory: directory.to_owned() })
            }
        }
        ClientChoice::ByType => {
            let fstype = fstype.ok_or(Error::NoType)?;
            let looked_at = files(directory)?;
            for file in &looked_at {
                let client = load(file)?;
                if client.definition.types.iter().any(|known| known == fstype) {
                    return Ok(client);
                }
            }
            Err(Error::UnknownType { fstype: fstype.to_owned(), looked_at, directory: directory.to_owned() })
        }
    }
}

fn files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable = |source| Error::DefinitionUnreadable { file: directory.to_owned(), source };
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut files: Vec<_> =
        paths.map_err(unreadable)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    Ok(files)
}

pub fn load(file: &Path) -> Result<Client, Error> {
    let text = std::fs::read_to_string(file).map_err(|source| Error::DefinitionUnreadable { file: file.to_owned(), source })?;
    let definition = parse(&text).map_err(|problem| Error::Definition { file: file.to_owned(), problem })?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Client { name, file: file.to_owned(), definition })
}

/// Reads a definition; the error says line and key.
pub fn parse(text: &str) -> Result<Definition, String> {
    let definition: Definition = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    definition.check()?;
    Ok(definition)
}

impl Definition {
    fn check(&self) -> Result<(), String> {
        if self.types.is_empty() {
            return Err("key `types`: at least one filesystem type is needed".into());
        }
        if self.command.first().is_none_or(|helper| helper.is_empty()) {
            return Err("key `command`: at least the helper is needed".into());
        }
        if !self.command.iter().any(|word| word.contains("{target}")) {
            return Err("key `command`: no word holds {target}, so nothing could be mounted".into());
        }
        if self.mounts == 0 {
            return Err("key `mounts`: a client that may mount nothing is of no use".into());
        }
        if self.namespaces.pid == Namespace::Host && self.namespaces.user == Some(Namespace::Private) {
            return Err(
                "key `namespaces`: pid = \"host\" cannot go with user = \"private\" (the client would see host processes under wrong ids)"
                    .into(),
            );
        }
        for path in self.provide.keys() {
            let file =
                shorefast_sandbox::spec::File { inside: path.clone(), content: shorefast_sandbox::spec::Content::Text(String::new()) };
            let plain = path.components().all(|part| matches!(part, std::path::Component::RootDir | std::path::Component::Normal(_)));
            if !path.is_absolute() || !plain || !(file.is_ours() || path.starts_with("/etc")) {
                return Err(format!("key `provide`: {path:?} is not an absolute path below /etc, /root, /run, /tmp or /var/lib"));
            }
        }
        self.limits.limits().map_err(|problem| format!("key `limits`: {problem}"))?;
        self.limits.scratch_bytes().map_err(|problem| format!("key `limits`: {problem}"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_definition_has_sensible_defaults() {
        let definition = parse("types = [\"sshfs\"]").unwrap();
        assert_eq!(definition.command[0], "mount");
        assert_eq!(definition.kernel_types, ["fuse"]);
        assert_eq!(definition.limits.scratch_bytes(), Ok(DEFAULT_SCRATCH));
    }

    #[test]
    fn mistakes_are_named() {
        let rows = [
            ("an unknown key", "types = [\"a\"]\ntpyes = 1", "line 2"),
            ("a wrong type of value", "types = \"a\"", "line 1"),
            ("no types", "types = []", "`types`"),
            ("nothing to run", "types = [\"a\"]\ncommand = []", "`command`"),
            ("no target in the command", "types = [\"a\"]\ncommand = [\"x\"]", "{target}"),
            ("a size that is none", "types = [\"a\"]\nlimits = { memory = \"lots\" }", "lots"),
            ("a size of nothing", "types = [\"a\"]\nlimits = { memory = \"0\" }", "no size"),
            ("a size that overflows", "types = [\"a\"]\nlimits = { memory = \"99999999999T\" }", "no size"),
            ("host pids with private users", "types = [\"a\"]\nnamespaces = { pid = \"host\", user = \"private\" }", "namespaces"),
            ("a file over the image's programs", "types = [\"a\"]\nprovide = { \"/usr/bin/x\" = \"\" }", "provide"),
            ("a file that climbs", "types = [\"a\"]\nprovide = { \"/etc/../usr/x\" = \"\" }", "provide"),
        ];
        for (name, text, part) in rows {
            let problem = parse(text).expect_err(name);
            assert!(problem.contains(part), "{name}: {problem}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("65536"), Ok(65536));
        assert_eq!(parse_size("4K"), Ok(4096));
        assert_eq!(parse_size("512M"), Ok(512 << 20));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
    }
}
