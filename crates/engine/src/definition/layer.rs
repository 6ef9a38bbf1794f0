//! A definition as it is written: any key may be missing, and comes from the layer below.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use shorefast_sandbox::spec::{Capabilities, SecretKind, SourceAccess};

use crate::definition::keys::{Daemon, Guests, Namespace, Provided, Source, SourceWrites};
use crate::definition::services::Services;
use crate::exit_policy::{HealLayer, OnExit};
use crate::mode::Mode;

/// A definition as it is written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Layer {
    pub types: Option<Vec<String>>,
    pub image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<PathBuf>,
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
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens: BTreeMap<String, String>,
    pub capabilities: Option<Capabilities>,
    pub mounts: Option<u32>,
    pub daemon: Option<Daemon>,
    pub on_exit: Option<OnExit>,
    #[serde(skip_serializing_if = "HealLayer::is_empty")]
    pub heal: HealLayer,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<bool>,
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

impl Layer {
    /// Merges this layer over `below`.
    pub fn over(self, below: Self) -> Self {
        Self {
            types: self.types.or(below.types),
            image: self.image.or(below.image),
            signed_by: self.signed_by.or(below.signed_by),
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
            tokens: below.tokens.into_iter().chain(self.tokens).collect(),
            capabilities: self.capabilities.or(below.capabilities),
            mounts: self.mounts.or(below.mounts),
            daemon: self.daemon.or(below.daemon),
            on_exit: self.on_exit.or(below.on_exit),
            heal: self.heal.over(below.heal),
            exclusive: self.exclusive.or(below.exclusive),
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
}

impl NamespaceLayer {
    fn is_empty(&self) -> bool {
        self.pid.is_none() && self.user.is_none()
    }
}

impl LimitLayer {
    fn is_empty(&self) -> bool {
        self.memory.is_none() && self.pids.is_none() && self.cpu.is_none() && self.scratch.is_none()
    }
}
