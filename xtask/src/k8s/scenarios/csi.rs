//! The CSI driver, as kubelet uses it: deploy/ as it is, real servers, and pods that work.

pub(super) mod crowd;
pub(super) mod deploy;
pub(super) mod healing;
pub(super) mod mistakes;
pub(super) mod on_demand;
mod provisioner;
pub(super) mod republish;
pub(super) mod restarts;
pub(super) mod volumes;

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::k8s::node::Node;

const DRIVER: &str = "csi.shorefast.dev";
const SOCKET: &str = "/var/lib/kubelet/plugins/csi.shorefast.dev/csi.sock";
const SET: &str = "shorefast-csi";
const NAMESPACE: [&str; 2] = ["--namespace", "kube-system"];
/// With the key and the known host of the tests' ssh server.
const KEY: &str = "ssh-key";
const SSH_OPTIONS: &str = "port=2222";

fn apply(node: &Node, object: &Value) -> Result<()> {
    node.cluster.kubectl.apply(&object.to_string(), &node.scratch)
}

fn secret(node: &Node, name: &str, content: &Value) -> Result<()> {
    apply(node, &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": content}))
}

fn ssh_key(node: &Node) -> Result<Value> {
    let key = fs::read_to_string(&node.sshd.key).context("the server's tests have a key")?;
    Ok(json!({"IdentityFile": key, "UserKnownHostsFile": node.sshd.known_host()}))
}

/// A PersistentVolume, and the claim of the same name.
fn static_volume(node: &Node, name: &str, attributes: &Value, secret: Option<&str>) -> Result<()> {
    let mut csi = json!({"driver": DRIVER, "volumeHandle": name, "volumeAttributes": attributes});
    if let Some(secret) = secret {
        csi["nodeStageSecretRef"] = json!({"name": secret, "namespace": "default"});
    }
    apply(
        node,
        &json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "manual",
            "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"name": name, "namespace": "default"}, "csi": csi,
        }}),
    )?;
    claim(node, name, "manual", Some(name))
}

fn claim(node: &Node, name: &str, class: &str, volume: Option<&str>) -> Result<()> {
    let mut spec = json!({"accessModes": ["ReadWriteMany"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}});
    if let Some(volume) = volume {
        spec["volumeName"] = json!(volume);
    }
    apply(node, &json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}))
}

fn claimed(name: &str) -> String {
    format!("persistentVolumeClaim: {{claimName: {name}}}")
}

fn claimed_read_only(name: &str) -> String {
    format!("persistentVolumeClaim: {{claimName: {name}, readOnly: true}}")
}

/// A volume that is written in the pod.
fn inline(attributes: &Value, secret: Option<&str>) -> String {
    let mut csi = json!({"driver": DRIVER, "volumeAttributes": attributes});
    if let Some(secret) = secret {
        csi["nodePublishSecretRef"] = json!({"name": secret});
    }
    format!("csi: {csi}")
}

fn sshfs(node: &Node) -> Value {
    json!({"type": "sshfs", "source": node.sshd.source(), "mountOptions": SSH_OPTIONS})
}

fn glusterfs(node: &Node) -> Value {
    json!({"type": "glusterfs", "source": node.gluster.source()})
}

fn bindfs(node: &Node, name: &str) -> Result<Value> {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = node.host.directory(format!("bound/{name}"));
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777))?;
    Ok(json!({"type": "bindfs", "source": directory}))
}
