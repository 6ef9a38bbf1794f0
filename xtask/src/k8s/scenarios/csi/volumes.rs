//! Volumes that are defined statically: in a PersistentVolume, or in a pod.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{KEY, bindfs, claimed, claimed_read_only, glusterfs, inline, secret, ssh_key, sshfs, static_volume};
use crate::k8s::node::Node;
use crate::k8s::pod::Pod;
use crate::k8s::scenarios::volumes::{look, work};

/// The pod reads what the server has, and can write or not.
fn expect(node: &Node, pod: &str, volume: &str, share: &Path, expected: &str) -> Result<()> {
    fs::write(share.join("marker"), "from-the-server")?;
    node.start_pod(pod, volume, &look(pod))?;
    let report = node.wait_for_report(pod)?;
    ensure!(report == format!("from-the-server {expected}"), "the pod {pod} reports {report:?}");
    ensure!(share.join(format!("by-{pod}")).exists() == (expected == "writes"), "the server saw something else");
    Ok(())
}

pub(in crate::k8s::scenarios) fn static_ones(node: &mut Node) -> Result<String> {
    secret(node, KEY, &ssh_key(node)?)?;
    let attributes = bindfs(node, "static")?;
    static_volume(node, "csi-ssh", &sshfs(node), Some(KEY))?;
    static_volume(node, "csi-gluster", &glusterfs(node), None)?;
    static_volume(node, "csi-bind", &attributes, None)?;
    let share = node.host.path("bound/static");
    expect(node, "ssh-1", &claimed("csi-ssh"), &node.sshd.share, "writes")?;
    expect(node, "gluster-1", &claimed("csi-gluster"), &node.gluster.brick, "writes")?;
    expect(node, "bind-1", &claimed("csi-bind"), &share, "writes")?;
    for (name, claim) in [("ssh-worker", "csi-ssh"), ("gluster-worker", "csi-gluster"), ("bind-worker", "csi-bind")] {
        node.start_pod(name, &claimed(claim), &work(name))?;
        node.wait_for_report(name)?;
    }
    Ok(String::new())
}

/// One client for all pods of a volume, and for each pod one line of the mount table.
pub(in crate::k8s::scenarios) fn shared(node: &mut Node) -> Result<String> {
    let of_ssh = || node.volumes().into_iter().filter(|mount| mount.fstype == "fuse.sshfs").count();
    let (clients, mounts) = (node.host.list().len(), of_ssh());
    expect(node, "ssh-2", &claimed("csi-ssh"), &node.sshd.share, "writes")?;
    ensure!(node.sshd.share.join("by-ssh-1").exists(), "another volume");
    expect(node, "ssh-ro", &claimed_read_only("csi-ssh"), &node.sshd.share, "reads")?;
    ensure!(node.host.list().len() == clients, "{clients} clients before, {} after", node.host.list().len());
    // A read-only pod's, too: it is a copy of its own.
    ensure!(of_ssh() == mounts + 2, "{mounts} mounts before, {} after", of_ssh());
    Ok(format!("{} mounts of one client", of_ssh()))
}

pub(in crate::k8s::scenarios) fn inline_ones(node: &mut Node) -> Result<String> {
    expect(node, "ssh-inline", &inline(&sshfs(node), Some(KEY)), &node.sshd.share, "writes")?;
    expect(node, "gluster-inline", &inline(&glusterfs(node), None), &node.gluster.brick, "writes")?;
    let mut read_only = sshfs(node);
    read_only["mountOptions"] = "port=2222,ro".into();
    expect(node, "ssh-inline-ro", &inline(&read_only, Some(KEY)), &node.sshd.share, "reads")?;
    let refused = bindfs(node, "refused")?;
    node.start_pod("bind-inline", &inline(&refused, None), "true")?;
    let complaint = node.complaint_about("bind-inline")?;
    ensure!(complaint.contains("PermissionDenied"), "a pod's author chooses a path of the host: {complaint}");
    node.delete_pods(&["bind-inline", "ssh-inline-ro", "gluster-inline", "ssh-inline"])?;
    Ok(String::new())
}

pub(in crate::k8s::scenarios) fn sub_path(node: &mut Node) -> Result<String> {
    let inside = node.sshd.share.join("deep/er");
    fs::create_dir_all(&inside)?;
    fs::write(inside.join("marker"), "from-deep-inside")?;
    let (volume, script) = (claimed("csi-ssh"), look("ssh-sub"));
    node.start_pods(&[Pod { name: "ssh-sub", volume: &volume, script: &script, sub_path: Some("deep/er"), group: None }])?;
    let report = node.wait_for_report("ssh-sub")?;
    ensure!(report == "from-deep-inside writes", "the pod reports {report:?}");
    ensure!(inside.join("by-ssh-sub").exists(), "the server saw something else");
    Ok(String::new())
}

/// This kubelet is too old to pass the group on (1.22), and must not change every file's owner on the server instead.
pub(in crate::k8s::scenarios) fn group(node: &mut Node) -> Result<String> {
    let marker = node.sshd.share.join("marker");
    let before = fs::metadata(&marker)?.gid();
    let (volume, script) = (claimed("csi-ssh"), look("ssh-group"));
    node.start_pods(&[Pod { name: "ssh-group", volume: &volume, script: &script, sub_path: None, group: Some(4711) }])?;
    let report = node.wait_for_report("ssh-group")?;
    ensure!(report.ends_with("writes"), "the pod reports {report:?}");
    let after = fs::metadata(&marker).context("the marker is gone")?.gid();
    ensure!(before == after, "the group of a file on the server became {after}");
    node.delete_pods(&["ssh-group"])?;
    Ok(String::new())
}
