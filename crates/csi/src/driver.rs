//! What the driver is and where it is; the same for every call.

use std::path::PathBuf;

use shorefast_serve::Operations;

use crate::locks::Locks;
use crate::probes::Probes;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Nothing outside it is touched. kubelet's `--root-dir`.
    pub kubelet_root: PathBuf,
    pub driver_name: String,
    pub node_id: String,
    /// Instead of the place below kubelet's root.
    pub socket: Option<PathBuf>,
    pub registration: Registration,
    pub health: Health,
    /// Where problems are told that no caller hears of.
    pub say: fn(&str),
}

/// Whether kubelet is told of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    WithKubelet,
    None,
}

/// Whether the driver says that it can tell how volumes are: kubelets before 1.37 and older test suites do not know that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Told,
    NotTold,
}

impl Settings {
    pub(crate) fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| self.kubelet_root.join("plugins").join(&self.driver_name).join("csi.sock"))
    }

    pub(crate) fn registration_socket(&self) -> Option<PathBuf> {
        let socket = self.kubelet_root.join("plugins_registry").join(format!("{}-reg.sock", self.driver_name));
        (self.registration == Registration::WithKubelet).then_some(socket)
    }
}

/// Names of drivers are those of domains, at most 63 characters long.
pub fn is_name(text: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_alphanumeric();
    let is_label = |label: &str| {
        label.bytes().all(|byte| is_end(byte) || byte == b'-')
            && label.bytes().next().is_some_and(is_end)
            && label.bytes().last().is_some_and(is_end)
    };
    text.len() <= 63 && text.split('.').all(is_label)
}

#[derive(Debug)]
pub struct Driver {
    pub(crate) settings: Settings,
    pub(crate) operations: Operations,
    pub(crate) locks: Locks,
    pub(crate) probes: Probes,
}

impl Driver {
    pub(crate) fn new(settings: Settings, operations: Operations) -> Self {
        Self { settings, operations, locks: Locks::default(), probes: Probes::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_domains() {
        let long = "a".repeat(64);
        let rows = [
            ("csi.shorefast.dev", true),
            ("a", true),
            ("", false),
            ("a..b", false),
            ("a/b", false),
            ("-a.b", false),
            ("..", false),
            (&long, false),
        ];
        for (name, expected) in rows {
            assert_eq!(is_name(name), expected, "{name:?}");
        }
    }
}
