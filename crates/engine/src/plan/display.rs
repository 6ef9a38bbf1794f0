//! A plan for people and machines: JSON without anything that could be a secret.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde_json::{Value, json};
use shorefast_sandbox::spec::{Content, File, ProcessLimits, Secret};

use crate::options;
use crate::plan::{ClientPlan, Plan, Root};
use crate::text;

impl Plan {
    /// The plan for display and for programs. Documented; values that could be secrets are left out.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Client(plan) => plan.to_json(),
            Self::Host(plan) => plan.to_json(),
        }
    }
}

impl ClientPlan {
    pub(crate) fn to_json(&self) -> Value {
        let shown = |text: &OsStr| text::escape(text.as_bytes());
        let plain_options = OsStr::new(&self.shown_options);
        let command: Vec<_> = self.spec.command.iter().map(|word| shown(&redact_word(word, plain_options))).collect();
        let files: Vec<_> = self.spec.files.iter().map(file_json).collect();
        json!({
            "client": self.client,
            "definition": self.definition.to_string(),
            "mode": self.mode,
            "why": self.why,
            "type": self.fstype,
            "source": shown(&self.source),
            "target": shown(self.target.as_os_str()),
            "image": matches!(self.root, Root::Image(_)).then(|| self.root.to_string()),
            "signed_by": self.signed_by.as_ref().map(|path| shown(path.as_os_str())),
            "container": matches!(self.root, Root::Container(_)).then(|| self.root.to_string()),
            "command": command,
            "environment": self.spec.environment.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "identity": self.spec.identity,
            "processes": self.spec.processes,
            "capabilities": self.spec.capabilities,
            "source_path": self.spec.source.as_ref().map(|source| shown(source.path.as_os_str())),
            "source_access": self.spec.source.as_ref().map(|source| source.access),
            "source_read_only": self.spec.source.as_ref().map(|source| source.is_read_only),
            "files": files,
            "host_files": self.host_files,
            "kernel_types": self.policy.kernel_types,
            "kernel_options": self.policy.kernel_options.iter().map(|extra| (&extra.fstype, &extra.options)).collect::<BTreeMap<_, _>>(),
            "services": self.services.iter().flat_map(|services| &services.run).map(|service| &service.name).collect::<Vec<_>>(),
            "mounts": self.policy.mounts,
            "flags": flag_names(self.policy.flags),
            "owner": self.policy.owner,
            "limits": self.limits_json(),
            "daemon": self.daemon,
            "on_exit": self.on_exit,
            "timeout_seconds": self.timeout.as_secs_f64(),
        })
    }
}

impl ClientPlan {
    /// The limits in force, and their scope: the whole client, or each of its processes.
    pub fn limits_json(&self) -> Value {
        let ProcessLimits { processes, memory_bytes } = self.spec.process_limits;
        let memory_for = match (self.limits.memory_bytes, memory_bytes) {
            (Some(_), _) => Some("client"),
            (None, Some(_)) => Some("process"),
            (None, None) => None,
        };
        json!({
            "memory_bytes": self.limits.memory_bytes.or(memory_bytes),
            "memory_for": memory_for,
            "processes": self.limits.processes.or(processes),
            "processors": self.limits.processors,
            "scratch_bytes": self.spec.scratch_bytes,
        })
    }
}

/// Replaces the word that carries the options by their masked form.
fn redact_word(word: &OsStr, shown: &OsStr) -> OsString {
    let names = |text: &OsStr| {
        text.to_str().map(|text| text.split(',').map(|item| item.split('=').next().unwrap_or_default().to_owned()).collect::<Vec<_>>())
    };
    if !shown.is_empty() && names(word).is_some_and(|word| names(shown).is_some_and(|shown| shown == word)) {
        shown.to_owned()
    } else {
        word.to_owned()
    }
}

fn file_json(file: &File) -> Value {
    let (kind, path) = match &file.content {
        Content::Text(_) | Content::TextWithMode(..) => ("text", None),
        Content::Host(path) => ("copy", Some(path)),
        Content::HostIfThere(path) => ("copy-if-there", Some(path)),
        Content::Secret { secret: Secret::Host(path), .. } => ("secret", Some(path)),
        Content::Secret { secret: Secret::Given(_), .. } => ("secret", None),
    };
    let shown = |path: &Path| text::escape(path.as_os_str().as_bytes());
    json!({ "inside": shown(&file.inside), "content": kind, "from": path.map(|path| shown(path)) })
}

fn flag_names(word: u64) -> Vec<&'static str> {
    let always = ["nosuid", "nodev"];
    let asked = options::flag_names(word).filter(|name| !always.contains(name));
    always.into_iter().chain(asked).collect()
}
