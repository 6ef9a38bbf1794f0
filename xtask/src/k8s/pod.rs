//! A pod that runs a shell script with one volume at /data; what it writes to /report/NAME can be read by the scenarios.

use std::path::Path;

use super::images::SHELL;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pod<'a> {
    pub(crate) name: &'a str,
    /// As in a pod's list of volumes, without the name.
    pub(crate) volume: &'a str,
    pub(crate) script: &'a str,
    pub(crate) sub_path: Option<&'a str>,
    pub(crate) group: Option<u32>,
}

impl Pod<'_> {
    pub(crate) fn manifest(&self, reports: &Path) -> String {
        let script = self.script.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        include_str!("pod.yaml")
            .replace("@NAME@", self.name)
            .replace("@IMAGE@", SHELL)
            .replace("@VOLUME@", self.volume)
            .replace("@REPORTS@", &reports.display().to_string())
            .replace("@MOUNT@", &self.sub_path.map(|path| format!(", subPath: {path}")).unwrap_or_default())
            .replace("@SECURITY@", &self.group.map(|group| format!("fsGroup: {group}")).unwrap_or_default())
            .replace("@SCRIPT@", &script)
    }
}
