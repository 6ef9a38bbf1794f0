//! The protocol's messages: JSON in, JSON out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The arguments of all calls. Each call uses its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Asked {
    pub name: String,
    /// The user of the volume: a different id for each container.
    #[serde(rename = "ID")]
    pub id: String,
    pub opts: Option<BTreeMap<String, String>>,
}

/// The answers to all calls: empty fields are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implements: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mountpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<Shown>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// Empty: success.
    pub err: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Shown {
    pub name: String,
    pub mountpoint: String,
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

/// Shown to users who inspect a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// `unmounted`, or that of the mount.
    pub state: String,
    pub client: String,
    pub image: String,
    /// How many use it.
    pub users: usize,
    /// The last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Capabilities {
    pub scope: &'static str,
}
