//! What may end while pods work: the driver, kubelet, containerd.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use shorefast_csi::messages::{Empty, NodeGetVolumeStatsRequest};
use shorefast_tests::channel::{Answer, Channel};
use shorefast_tests::processes::{self, Process};
use shorefast_tests::wait;

use super::deploy::{SELECTOR, wait_until_registered};
use super::{KEY, NAMESPACE, SET, SOCKET, inline, sshfs};
use crate::k8s::images::NEWER_SHOREFAST;
use crate::k8s::node::Node;
use crate::k8s::scenarios::deploy::wait_for_rollout;
use crate::k8s::scenarios::upgrade::under_work;

pub(super) const WORKERS: [&str; 3] = ["ssh-worker", "gluster-worker", "bind-worker"];

/// The driver's process, which is on the host.
fn driver() -> Option<Process> {
    processes::on_this_network().into_iter().find(|process| {
        let words = fs::read(process.file("cmdline")).unwrap_or_default();
        let words: Vec<_> = words.split(|byte| *byte == 0).collect();
        words.get(1).is_some_and(|word| *word == b"serve") && words.contains(&&b"--csi"[..])
    })
}

/// Another driver serves, and a new pod gets its volume.
fn wait_for_successor(node: &Node, old: Process, pod: &str) -> Result<()> {
    node.cluster.wait_until("another driver", |_| driver().filter(|new| *new != old))?;
    wait_until_registered(node)?;
    node.start_pod(pod, &inline(&sshfs(node), Some(KEY)), &format!("cat /data/marker > /report/{pod}"))?;
    let report = node.wait_for_report(pod)?;
    ensure!(report == "from-the-server", "the pod reports {report:?}");
    node.delete_pods(&[pod])
}

pub(in crate::k8s::scenarios) fn deleted(node: &mut Node) -> Result<String> {
    let old = driver().context("no driver runs")?;
    under_work(node, &WORKERS, |node| {
        node.cluster.kubectl.run(&[&["delete", "pod", "--selector", SELECTOR, "--timeout=60s"][..], &NAMESPACE].concat())?;
        wait_for_successor(node, old, "after-deletion")
    })
}

pub(in crate::k8s::scenarios) fn upgraded(node: &mut Node) -> Result<String> {
    let old = driver().context("no driver runs")?;
    under_work(node, &WORKERS, |node| {
        let image = format!("driver={NEWER_SHOREFAST}");
        node.cluster.kubectl.run(&[&["set", "image", "daemonset/shorefast-csi", &image][..], &NAMESPACE].concat())?;
        wait_for_rollout(node, SET)?;
        wait_for_successor(node, old, "after-upgrade")
    })
}

pub(in crate::k8s::scenarios) fn out_of_memory(node: &mut Node) -> Result<String> {
    let old = driver().context("no driver runs")?;
    let group = memory_group(old)?;
    let remark = under_work(node, &WORKERS, |node| {
        let used: u64 = fs::read_to_string(group.join("memory.usage_in_bytes"))?.trim().parse()?;
        fs::write(group.join("memory.limit_in_bytes"), (used + (64 << 10)).to_string()).context("cannot limit the pod's memory")?;
        // Each request is a process more in the pod.
        let killed = wait::within(Duration::from_secs(60), || {
            ask_a_lot();
            (driver() != Some(old)).then_some(())
        });
        killed.context("the driver was not killed")?;
        wait_for_successor(node, old, "after-oom")
    })?;
    let pods = node.cluster.kubectl.get(&[&["pods", "--selector", SELECTOR][..], &NAMESPACE].concat()).context("no pods")?;
    let ended = pods["items"][0]["status"]["containerStatuses"][0]["lastState"]["terminated"].clone();
    ensure!(ended["exitCode"] == 137, "the driver's pod did not end by SIGKILL: {ended}");
    Ok(format!("{}: {remark}", ended["reason"].as_str().unwrap_or("killed")))
}

/// Version 1, as on the machines where these scenarios run.
fn memory_group(process: Process) -> Result<PathBuf> {
    let groups = fs::read_to_string(process.file("cgroup"))?;
    let path = groups.lines().find_map(|line| line.split_once(":memory:").map(|(_, path)| path)).context("no memory controller")?;
    ensure!(path.contains("kubepods"), "the driver is not in its pod: {path}");
    Ok(Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/')))
}

fn ask_a_lot() {
    if !Path::new(SOCKET).exists() {
        return;
    }
    // The driver may be killed while it is asked: that is the purpose.
    let _ = std::panic::catch_unwind(|| {
        let channel = Channel::open(Path::new(SOCKET));
        let message = |number| NodeGetVolumeStatsRequest {
            volume_id: format!("v{number}"),
            volume_path: "/var/lib/kubelet/pods/x".to_owned(),
            ..Default::default()
        };
        let calls: Vec<_> =
            (0..200).map(|number| channel.begin::<Empty>("/csi.v1.Node/NodeGetVolumeStats", &message(number), None)).collect();
        calls.into_iter().for_each(|call| {
            let _: Answer<Empty> = channel.end(call);
        });
    });
}

pub(in crate::k8s::scenarios) fn kubelet(node: &mut Node) -> Result<String> {
    let mounts = node.volumes().len();
    let remark = under_work(node, &WORKERS, |node| {
        node.cluster.restart_kubelet()?;
        wait_until_registered(node)
    })?;
    ensure!(node.volumes().len() == mounts, "{mounts} mounts before, {} after", node.volumes().len());
    Ok(remark)
}

pub(in crate::k8s::scenarios) fn containerd(node: &mut Node) -> Result<String> {
    let mounts = node.volumes().len();
    let remark = under_work(node, &WORKERS, |node| {
        node.cluster.restart_containerd()?;
        node.start_pod("after-containerd", &inline(&sshfs(node), Some(KEY)), "cat /data/marker > /report/after-containerd")?;
        node.wait_for_report("after-containerd").map(drop)?;
        node.delete_pods(&["after-containerd"])
    })?;
    ensure!(node.volumes().len() == mounts, "{mounts} mounts before, {} after", node.volumes().len());
    Ok(remark)
}
