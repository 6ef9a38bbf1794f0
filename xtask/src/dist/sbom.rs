//! What is in the binary: every crate with its version and licence, as CycloneDX.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::dist::{Architecture, VERSION};
use crate::process;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

/// `None`: what is linked in; not for tests or build scripts.
#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bom<'a> {
    bom_format: &'static str,
    spec_version: &'static str,
    version: u32,
    metadata: About<'a>,
    components: Vec<Component<'a>>,
}

#[derive(Serialize)]
struct About<'a> {
    component: Component<'a>,
}

#[derive(Serialize)]
struct Component<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    version: &'a str,
    purl: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    licenses: Vec<License<'a>>,
}

#[derive(Serialize)]
struct License<'a> {
    expression: &'a str,
}

pub(super) fn write(architecture: Architecture, file: &Path) -> Result<()> {
    let target = format!("{}-unknown-linux-musl", architecture.rust);
    let mut cargo = process::cargo();
    cargo.args(["metadata", "--locked", "--format-version=1", "--filter-platform", &target]);
    let metadata: Metadata = serde_json::from_str(&process::output(&mut cargo)?).context("cargo metadata is not what it was")?;
    let packages: BTreeMap<_, _> = metadata.packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let nodes: BTreeMap<_, _> = metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let root = metadata.packages.iter().find(|package| package.name == "shorefast").context("no package shorefast")?;
    let mut inside = BTreeSet::new();
    let mut next = vec![root.id.as_str()];
    while let Some(id) = next.pop() {
        if inside.insert(id)
            && let Some(node) = nodes.get(id)
        {
            let linked = |dependency: &&Dependency| dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
            next.extend(node.deps.iter().filter(linked).map(|dependency| dependency.pkg.as_str()));
        }
    }
    let mut components: Vec<_> = inside.iter().filter_map(|id| packages.get(id)).map(|package| component("library", package)).collect();
    components.sort_by(|one, other| (one.name, one.version).cmp(&(other.name, other.version)));
    let bom = Bom {
        bom_format: "CycloneDX",
        spec_version: "1.5",
        version: 1,
        metadata: About { component: component("application", root) },
        components,
    };
    debug_assert_eq!(root.version, VERSION);
    fs::write(file, serde_json::to_vec_pretty(&bom)?).context("cannot write the list of crates")
}

fn component<'a>(kind: &'static str, package: &'a Package) -> Component<'a> {
    let licenses = package.license.as_deref().map(|expression| License { expression }).into_iter().collect();
    let purl = format!("pkg:cargo/{}@{}", package.name, package.version);
    Component { kind, name: &package.name, version: &package.version, purl, licenses }
}
