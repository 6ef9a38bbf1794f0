//! How the driver gets into the cluster and out of it.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{DRIVER, NAMESPACE, SET, SOCKET};
use crate::k8s::images;
use crate::k8s::node::Node;
use crate::k8s::scenarios::deploy::wait_for_rollout;
use crate::{cache, process};

/// Without an image of Kubernetes' own provisioner its Deployment does not come up; the tests have a small one.
pub(in crate::k8s::scenarios) fn chart(node: &mut Node) -> Result<String> {
    let chart = images::project().join("deploy/helm/shorefast-csi");
    let helm = |words: &[&str]| {
        let mut helm = Command::new(cache::directory()?.join("helm/bin/helm"));
        helm.arg("--kubeconfig").arg(node.cluster.kubectl.kubeconfig()).args(words).args(NAMESPACE);
        process::output(&mut helm)
    };
    helm(&["install", "shorefast-csi", chart.to_str().context("our own path")?])?;
    wait_for_rollout(node, SET)?;
    wait_until_registered(node)?;
    helm(&["uninstall", "shorefast-csi"])?;
    wait_until_gone(node)?;
    Ok(String::new())
}

pub(in crate::k8s::scenarios) fn manifests(node: &mut Node) -> Result<String> {
    let base = images::project().join("deploy/kubernetes/csi/base");
    node.cluster.kubectl.run(&["apply", "--kustomize", base.to_str().context("our own path")?])?;
    wait_for_rollout(node, SET)?;
    wait_until_registered(node)?;
    let pods = node.cluster.kubectl.get(&[&["pods", "--selector", SELECTOR][..], &NAMESPACE].concat()).context("no pods")?;
    ensure!(pods["items"][0]["spec"]["containers"].as_array().context("containers")?.len() == 1, "more than one container");
    Ok(String::new())
}

pub(super) const SELECTOR: &str = "app.kubernetes.io/name=shorefast-csi";

/// kubelet says which drivers it knows.
pub(super) fn wait_until_registered(node: &Node) -> Result<()> {
    node.cluster.wait_until("kubelet to register the driver", |kubectl| {
        let drivers = kubectl.get(&["csinode", crate::k8s::cluster::NODE])?;
        drivers["spec"]["drivers"].as_array()?.iter().any(|driver| driver["name"] == DRIVER).then_some(())
    })
}

fn wait_until_gone(node: &Node) -> Result<()> {
    node.cluster.wait_until("the driver to be gone", |kubectl| {
        let pods = kubectl.get(&[&["pods"][..], &NAMESPACE].concat())?;
        let is_gone = pods["items"].as_array()?.is_empty() && !std::path::Path::new(SOCKET).exists();
        is_gone.then_some(())
    })
}

pub(in crate::k8s::scenarios) fn removal(node: &mut Node) -> Result<String> {
    let base = images::project().join("deploy/kubernetes/csi/base");
    node.cluster.kubectl.run(&["delete", "--timeout=120s", "--kustomize", base.to_str().context("our own path")?])?;
    wait_until_gone(node)?;
    Ok(String::new())
}
