//! In-tree volumes: kubelet calls the mounter, Shorefast runs the client, a pod works.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use shorefast_tests::processes::Process;
use shorefast_tests::wait;

use crate::k8s::node::Node;

pub(super) const INLINE: &str = "glusterfs: {endpoints: gluster, path: v0}";
const INLINE_RO: &str = "glusterfs: {endpoints: gluster, path: v0, readOnly: true}";

/// Writes, reads back, and reports how often that went well and how often not.
pub(super) fn work(name: &str) -> String {
    r#"trap 'exit 0' TERM; good=0; bad=0
while :; do
  if echo "$good" > /data/@NAME@ && [ "$(cat /data/@NAME@)" = "$good" ]; then good=$((good+2)); else bad=$((bad+1)); fi
  echo "$good $bad" > /report/@NAME@.new && mv /report/@NAME@.new /report/@NAME@
done"#
        .replace("@NAME@", name)
}

/// Says what it reads, and whether it can write; then stays.
pub(super) fn look(name: &str) -> String {
    format!(
        "trap 'exit 0' TERM; seen=$(cat /data/marker); if touch /data/by-{name}; then can=writes; else can=reads; fi
echo \"$seen $can\" > /report/{name}; while :; do sleep 1; done"
    )
}

pub(super) fn inline_rw(node: &mut Node) -> Result<String> {
    fs::write(node.gluster.brick.join("marker"), "from-the-server")?;
    node.start_pod("worker", INLINE, &work("worker"))?;
    node.wait_for_report("worker")?;
    ensure!(node.gluster.brick.join("worker").exists(), "the server does not have what the pod wrote");
    let volumes = node.volumes();
    ensure!(!volumes.is_empty() && volumes.iter().all(|mount| mount.fstype == "fuse.glusterfs"), "{volumes:?}");
    let target = volumes[0].point.display().to_string();
    ensure!(target.contains("/volumes/kubernetes.io~glusterfs/data"), "mounted at {target}");
    Ok(String::new())
}

pub(super) fn outside_kubelets_group(node: &mut Node) -> Result<String> {
    let kubelet = node.cluster.kubelet()?;
    ensure!(kubelet.shares_group_with(kubelet.pid()), "kubelet itself is not in its group: this proves nothing");
    let processes = node.sandboxed();
    ensure!(!processes.is_empty(), "no client runs");
    let inside: Vec<_> = processes.iter().filter(|process| kubelet.shares_group_with(process.pid)).map(Process::describe).collect();
    ensure!(inside.is_empty(), "in kubelet's group: {inside:?}");
    Ok(String::new())
}

fn expect(node: &Node, pod: &str, volume: &str, expected: &str) -> Result<String> {
    node.start_pod(pod, volume, &look(pod))?;
    let report = node.wait_for_report(pod)?;
    ensure!(report == format!("from-the-server {expected}"), "the pod reports {report:?}");
    ensure!(node.gluster.brick.join(format!("by-{pod}")).exists() == (expected == "writes"), "the server saw something else");
    Ok(String::new())
}

pub(super) fn inline_ro(node: &mut Node) -> Result<String> {
    expect(node, "inline-reader", INLINE_RO, "reads")
}

pub(super) fn persistent_rw(node: &mut Node) -> Result<String> {
    expect(node, "sharer", "persistentVolumeClaim: {claimName: shared}", "writes")
}

pub(super) fn persistent_ro(node: &mut Node) -> Result<String> {
    expect(node, "reader", "persistentVolumeClaim: {claimName: frozen, readOnly: true}", "reads")
}

pub(super) fn wrong_name(node: &mut Node) -> Result<String> {
    node.start_pod("mistaken", "glusterfs: {endpoints: gluster, path: nosuchvolume}", "true")?;
    let complaint = node.complaint_about("mistaken")?;
    ensure!(complaint.contains("nosuchvolume"), "the event does not say which volume: {complaint}");
    let clear = ["shorefast:", "hint:"].iter().all(|part| complaint.contains(part));
    ensure!(clear, "the event does not say what is wrong: {complaint}");
    node.delete_pods(&["mistaken"])?;
    Ok(last_lines(&complaint))
}

pub(super) fn nfs(node: &mut Node) -> Result<String> {
    let known = fs::read_to_string("/proc/filesystems")?;
    if known.lines().any(|line| line.ends_with("\tnfs")) {
        bail!("this kernel has nfs: the scenario is about one that has not");
    }
    node.start_pod("nfs", "nfs: {server: 10.99.0.1, path: /export}", "true")?;
    let complaint = node.complaint_about("nfs")?;
    let clear = complaint.matches("this kernel has no filesystem nfs").count() == 1;
    ensure!(clear, "the event does not say it in one sentence: {complaint}");
    node.delete_pods(&["nfs"])?;
    Ok(last_lines(&complaint))
}

/// What a person reads of an event, on one line of a table.
fn last_lines(complaint: &str) -> String {
    let from = complaint.find("shorefast:").unwrap_or(0);
    complaint[from..].lines().map(str::trim).collect::<Vec<_>>().join(" / ").replace('|', "/")
}

pub(super) fn nothing_left(node: &mut Node) -> Result<String> {
    ensure!(!node.live_mounts()?.is_empty(), "nothing is mounted: this proves nothing");
    let pods = node.cluster.kubectl.get(&["pods"]).context("no list of pods")?;
    let names: Vec<_> = pods["items"].as_array().context("a list")?.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
    node.delete_pods(&names)?;
    let gone = || (node.volumes().is_empty() && node.sandboxed().is_empty()).then_some(());
    wait::within(wait::PATIENCE, gone).with_context(|| {
        let processes: Vec<_> = node.sandboxed().iter().map(Process::describe).collect();
        format!("left: {:?} {processes:?}", node.volumes())
    })?;
    ensure!(node.live_mounts()?.is_empty(), "records are left");
    Ok(format!("{} pods", names.len()))
}
