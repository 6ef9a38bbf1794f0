//! deploy/: how Shorefast gets onto a node, stays current there, and goes.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::k8s::cluster::{MOUNTER, STATIC_PODS};
use crate::k8s::images;
use crate::k8s::node::{Node, PROGRAM, run};

const DEFINITION: &str = "/etc/shorefast/clients.d/glusterfs.toml";
const RESOLVER: &str = "/opt/shorefast/rootfs/etc/resolv.conf";

fn manifest(name: &str) -> Result<String> {
    let file = images::project().join("deploy/kubernetes").join(name);
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

fn is_executable(path: &str) -> bool {
    Command::new(path).arg("--version").output().is_ok_and(|output| output.status.success())
}

pub(super) fn static_pod(node: &mut Node) -> Result<String> {
    let file = Path::new(STATIC_PODS).join("shorefast.yaml");
    fs::write(&file, manifest("static-pod.yaml")?)?;
    node.cluster.wait_until("the static pod to install the mounter", |_| is_executable(PROGRAM).then_some(()))?;
    ensure!(Path::new(MOUNTER).exists(), "the program is there, but no mounter");
    fs::remove_file(file)?;
    node.cluster.wait_until("the static pod to end", |kubectl| {
        let pods = kubectl.get(&["pods", "--namespace", "kube-system"])?;
        pods["items"].as_array()?.is_empty().then_some(())
    })?;
    ensure!(is_executable(PROGRAM), "the mounter went with its pod");
    Ok(String::new())
}

pub(super) fn daemon_set(node: &mut Node) -> Result<String> {
    for name in ["rbac.yaml", "configmap.yaml", "daemonset.yaml"] {
        node.cluster.kubectl.apply(&manifest(name)?, &node.scratch)?;
    }
    wait_for_rollout(node, "shorefast")?;
    node.cluster
        .wait_until("the definition on the node", |_| fs::read_to_string(DEFINITION).ok().filter(|text| text.contains("limits")))?;
    ensure!(is_executable(PROGRAM), "the program cannot be run");
    Ok(String::new())
}

pub(super) fn wait_for_rollout(node: &Node, name: &str) -> Result<()> {
    node.cluster.wait_until(&format!("the DaemonSet {name} to be ready everywhere"), |kubectl| {
        let set = kubectl.get(&["daemonset", name, "--namespace", "kube-system"])?;
        let (status, generation) = (&set["status"], &set["metadata"]["generation"]);
        let is_one = |name: &str| status[name] == 1;
        (is_one("updatedNumberScheduled") && is_one("numberAvailable") && status["observedGeneration"] == *generation).then_some(())
    })
}

pub(super) fn config_map(node: &mut Node) -> Result<String> {
    let set = |files: serde_json::Value| {
        let patch = json!({ "data": files }).to_string();
        node.cluster.kubectl.run(&["patch", "configmap", "shorefast-clients", "--namespace", "kube-system", "--patch", &patch])
    };
    set(json!({ "glusterfs.toml": "limits = { memory = \"2G\" }\n" }))?;
    node.cluster.wait_until("the change on the node", |_| fs::read_to_string(DEFINITION).ok().filter(|text| text.contains("2G")))?;
    set(json!({ "glusterfs.toml": "limits = 7\n" }))?;
    let said = node.cluster.wait_until("the pod to complain", |_| logs_of_installer().filter(|text| text.contains("is wrong")))?;
    ensure!(said.contains("glusterfs.toml"), "the complaint does not name the file: {said}");
    ensure!(fs::read_to_string(DEFINITION)?.contains("2G"), "the last good definition is gone");
    set(json!({ "glusterfs.toml": "limits = { memory = \"1G\" }\n" }))?;
    node.cluster.wait_until("the repair on the node", |_| fs::read_to_string(DEFINITION).ok().filter(|text| text.contains("1G")))?;
    Ok(String::new())
}

/// Where kubelet keeps what containers print.
fn logs_of_installer() -> Option<String> {
    let pods = fs::read_dir("/var/log/pods").ok()?.filter_map(Result::ok);
    let ours = pods.filter(|entry| entry.file_name().to_string_lossy().starts_with("kube-system_shorefast"));
    let logs = ours.flat_map(|pod| fs::read_dir(pod.path().join("install")).into_iter().flatten().filter_map(Result::ok));
    Some(logs.filter_map(|log| fs::read_to_string(log.path()).ok()).collect())
}

pub(super) fn rights(node: &mut Node) -> Result<String> {
    let may = |verb: &str, what: &str| {
        let words =
            ["auth", "can-i", verb, what, "--namespace", "kube-system", "--as", "somebody", "--as-group", "shorefast-administrators"];
        node.cluster.kubectl.run(&words).is_ok()
    };
    ensure!(may("update", "configmaps/shorefast-clients"), "they may not change the ConfigMap");
    ensure!(!may("get", "secrets") && !may("update", "configmaps/other") && !may("delete", "daemonsets"), "they may do more");
    Ok(String::new())
}

pub(super) fn name_servers(node: &mut Node) -> Result<String> {
    node.cluster.restart_kubelet()?;
    node.cluster
        .wait_until("kubelet to write name servers", |_| fs::read_to_string(RESOLVER).ok().filter(|text| text.contains("10.0.0.10")))?;
    Ok(String::new())
}

pub(super) fn doctor(node: &mut Node) -> Result<String> {
    let findings = node.ask(&["doctor", "--json", "glusterfs"])?;
    let all = findings.as_array().context("a list")?;
    let about_kubelet = all.iter().find(|each| each["subject"] == "kubelet").context("nothing about kubelet")?;
    ensure!(about_kubelet["verdict"] == "good", "{about_kubelet:#}");
    let bad: Vec<_> = all.iter().filter(|each| each["verdict"] == "bad").collect();
    ensure!(bad.is_empty(), "{bad:?}");
    Ok(format!("{} findings", all.len()))
}

pub(super) fn removal(node: &mut Node) -> Result<String> {
    node.cluster.kubectl.run(&["delete", "daemonset", "shorefast", "--namespace", "kube-system", "--timeout=120s"])?;
    node.cluster.wait_until("the pods of the DaemonSet to be gone", |kubectl| {
        let pods = kubectl.get(&["pods", "--namespace", "kube-system"])?;
        pods["items"].as_array()?.is_empty().then_some(())
    })?;
    ensure!(is_executable(PROGRAM), "the program went with the DaemonSet: pods that start now would fail");
    run(&[PROGRAM, "uninstall", "--to", "/opt/shorefast"])?;
    let left = |directory: &str| {
        fs::read_dir(directory).map(|entries| entries.filter_map(Result::ok).map(|entry| entry.path()).collect::<Vec<_>>())
    };
    ensure!(left("/opt/shorefast").unwrap_or_default().is_empty(), "left: {:?}", left("/opt/shorefast"));
    ensure!(!Path::new(DEFINITION).exists(), "the definition is left");
    Ok(String::new())
}
