//! Volumes on demand: a directory of a base per claim.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{KEY, apply, bindfs, claim, claimed, glusterfs, provisioner, sshfs};
use crate::k8s::node::Node;
use crate::k8s::scenarios::volumes::look;

fn class(node: &Node, name: &str, attributes: &Value, more: &Value) -> Result<()> {
    let mut parameters = attributes.clone();
    for (key, value) in more.as_object().context("an object")? {
        parameters[key] = value.clone();
    }
    apply(
        node,
        &json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": super::DRIVER, "parameters": parameters}),
    )
}

pub(in crate::k8s::scenarios) fn made_and_removed(node: &mut Node) -> Result<String> {
    let with_key = |more: Value| {
        let mut all = more;
        for whose in ["provisioner", "node-stage"] {
            all[format!("csi.storage.k8s.io/{whose}-secret-name")] = KEY.into();
            all[format!("csi.storage.k8s.io/{whose}-secret-namespace")] = "default".into();
        }
        all
    };
    let directory = "${pvc.metadata.namespace}-${pvc.metadata.name}";
    class(node, "on-ssh", &sshfs(node), &with_key(json!({"subDir": directory, "onDelete": "archive"})))?;
    class(node, "on-gluster", &glusterfs(node), &json!({"subDir": directory}))?;
    let base = bindfs(node, "base")?;
    class(node, "on-bind", &base, &json!({"subDir": directory, "onDelete": "retain"}))?;
    let rows: [(&str, PathBuf, &str); 3] = [
        ("on-ssh", node.sshd.share.clone(), "archived-default-on-ssh"),
        ("on-gluster", node.gluster.brick.clone(), ""),
        ("on-bind", node.host.path("bound/base"), "default-on-bind"),
    ];
    for (name, _, _) in &rows {
        claim(node, name, name, None)?;
        node.start_pod(name, &claimed(name), &look(name))?;
    }
    for (name, base, _) in &rows {
        node.cluster.wait_until(&format!("a volume for {name}"), |_| {
            // What fails is tried again, as the real one does.
            if let Err(error) = provisioner::look_once(node) {
                eprintln!("          {error:#}");
            }
            node.report(name)
        })?;
        ensure!(base.join(format!("default-{name}/by-{name}")).exists(), "{name} writes elsewhere");
    }
    let names: Vec<_> = rows.iter().map(|(name, _, _)| *name).collect();
    node.delete_pods(&names)?;
    node.cluster.kubectl.run(&[&["delete", "persistentvolumeclaim", "--timeout=60s"], &names[..]].concat())?;
    node.cluster.wait_until("the volumes to be removed", |kubectl| {
        if let Err(error) = provisioner::look_once(node) {
            eprintln!("          {error:#}");
        }
        let all = kubectl.get(&["persistentvolumes"])?;
        let left = all["items"]
            .as_array()?
            .iter()
            .filter(|volume| volume["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("pvc-")));
        (left.count() == 0).then_some(())
    })?;
    for (name, base, left) in &rows {
        let own = format!("default-{name}");
        ensure!(base.join(&own).exists() == (*left == own), "{name}: its directory");
        ensure!(left.is_empty() || base.join(left).join(format!("by-{name}")).exists(), "{name}: {left} is not there");
        ensure!(fs::read_dir(base.join(".shorefast")).is_err(), "{name}: notes are left");
    }
    Ok(String::new())
}
