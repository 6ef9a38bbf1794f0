//! The `services` key of a client definition: daemons that run beside its mounts.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use shorefast_broker::Grant;
use shorefast_sandbox::spec::{Content, File};

use crate::definition::keys::check_provided;

/// Daemons in the client's image that some of its mounts need: one instance for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Services {
    /// The program by which the client starts them; inside the sandbox it is replaced by ours. Without one, they start before the mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<PathBuf>,
    /// A mount with one of these options (`x*`: any that begins with x) needs them as long as it exists,
    pub used_with: Vec<String>,
    /// unless it has one of these.
    #[serde(default)]
    pub unless: Vec<String>,
    /// What the caller can do on hosts where they cannot run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
    /// In start order.
    pub run: Vec<Service>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    pub name: String,
    pub command: Vec<String>,
    /// Additional arguments for a restart within the same boot.
    #[serde(default)]
    pub again: Vec<String>,
    /// The RPC program number that answers when it runs. If the host already runs it, that one is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<u32>,
    /// Ports, socket paths, `reserved`, or `rpc_pipefs`.
    #[serde(default)]
    pub binds: Vec<String>,
    /// Host sockets that are visible to it.
    #[serde(default)]
    pub sockets: Vec<PathBuf>,
    /// Host files below /etc that it requires: it gets private copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<PathBuf>,
    /// The same for Kerberos profiles, with everything that they include.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<PathBuf>,
    /// A directory that is kept for it permanently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PathBuf>,
    /// Subdirectories that it expects there.
    #[serde(default)]
    pub state_directories: Vec<String>,
    /// Files that it needs besides the image's, as in `provide`.
    #[serde(default)]
    pub provide: BTreeMap<PathBuf, String>,
}

impl Services {
    pub(crate) fn checked(self) -> Result<Self, String> {
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) && !name.starts_with('.')
        };
        for service in &self.run {
            let wrong = |what: &str| format!("key `services`: {:?}: {what}", service.name);
            if !is_name(&service.name) {
                return Err(wrong("a name has letters, digits, dots and dashes"));
            }
            let given = service.provide.keys().chain(service.files());
            given.into_iter().try_for_each(|path| check_provided(path, "provide"))?;
            if service.command.is_empty() {
                return Err(wrong("a command is needed"));
            }
            if service.program.is_some() == service.answers_the_kernel() {
                return Err(wrong("exactly one of `program` and `rpc_pipefs` in `binds` is needed, to tell whether it runs"));
            }
            if !service.state_directories.iter().all(|name| is_name(name)) {
                return Err(wrong("`state_directories` are plain names"));
            }
            for path in service.state.iter().chain(&service.sockets) {
                let file = File { inside: path.clone(), content: Content::Text(String::new()) };
                if !path.is_absolute()
                    || !file.is_ours()
                    || !path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
                {
                    return Err(wrong("paths are absolute, and below /run, /tmp, /root or /var"));
                }
            }
            if let Some(bad) = service.binds.iter().find(|bind| grant(bind).is_none()) {
                return Err(wrong(&format!("{bad:?} is neither a port below 1024, nor a path below /run, nor `reserved` or `rpc_pipefs`")));
            }
        }
        Ok(self)
    }
}

impl Service {
    /// The host files that it requires.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.copies.iter().chain(&self.profiles)
    }

    fn answers_the_kernel(&self) -> bool {
        self.binds.iter().any(|bind| grant(bind) == Some(Grant::Pipes))
    }
}

/// `111`, `reserved`, `rpc_pipefs`, or `/run/x.sock`, which is the same path on the host.
pub fn grant(text: &str) -> Option<Grant> {
    let path = Path::new(text);
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    match text {
        "reserved" => Some(Grant::ReservedPort),
        "rpc_pipefs" => Some(Grant::Pipes),
        _ if path.starts_with("/run") && is_plain => Some(Grant::Socket { inside: path.to_owned(), outside: path.to_owned() }),
        _ => text.parse().ok().filter(|port| (1..1024).contains(port)).map(Grant::Port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants() {
        assert_eq!(grant("111"), Some(Grant::Port(111)));
        assert_eq!(grant("reserved"), Some(Grant::ReservedPort));
        assert_eq!(grant("rpc_pipefs"), Some(Grant::Pipes));
        assert_eq!(grant("/run/x.sock"), Some(Grant::Socket { inside: "/run/x.sock".into(), outside: "/run/x.sock".into() }));
        for bad in ["", "0", "1024", "-1", "x", "/etc/x", "/run/../etc/x", "run/x"] {
            assert_eq!(grant(bad), None, "{bad}");
        }
    }
}
