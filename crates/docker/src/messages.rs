//! What the protocol says: JSON in, JSON out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Every call's arguments. A call looks at those that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Asked {
    pub name: String,
    /// Who uses the volume: another one for each container.
    #[serde(rename = "ID")]
    pub id: String,
    pub opts: Option<BTreeMap<String, String>>,
}

/// Every call's answer: what is not in it is left out.
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
    /// Empty: all is well.
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

/// For people who look at a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// `unmounted`, or that of the mount.
    pub state: String,
    pub client: String,
    pub image: String,
    /// How many use it.
    pub users: usize,
    /// What went wrong last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Capabilities {
    pub scope: &'static str,
}
