//! Many pods at once, servers that are dead, and the end of everything.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use shorefast_tests::processes::{self, Process};
use shorefast_tests::wait;

use super::{KEY, bindfs, claimed, inline, sshfs, static_volume};
use crate::k8s::node::Node;
use crate::k8s::pod::Pod;

const PODS: usize = 50;
/// For fifty containers on two cores.
const FOR_ALL: Duration = Duration::from_secs(900);

/// Some share a volume, some have one of their own, some have it written in the pod.
pub(in crate::k8s::scenarios) fn many(node: &mut Node) -> Result<String> {
    for number in 0..PODS / 5 {
        let name = format!("crowd-bind-{number}");
        let attributes = bindfs(node, &name)?;
        static_volume(node, &name, &attributes, None)?;
    }
    let volume = |number: usize| match number % 5 {
        0 => claimed(&format!("crowd-bind-{}", number / 5)),
        1 | 2 => claimed("csi-gluster"),
        3 => claimed("csi-ssh"),
        _ => inline(&sshfs(node), Some(KEY)),
    };
    let all: Vec<_> = (0..PODS)
        .map(|number| {
            let name = format!("crowd-{number}");
            let script =
                format!("trap 'exit 0' TERM; echo {number} > /data/{name} && cat /data/{name} > /report/{name}; while :; do sleep 1; done");
            (name, volume(number), script)
        })
        .collect();
    let pods: Vec<_> = all.iter().map(|(name, volume, script)| Pod { name, volume, script, ..Pod::default() }).collect();
    let begun = Instant::now();
    node.start_pods(&pods)?;
    for (number, pod) in pods.iter().enumerate() {
        let report = node
            .cluster
            .wait_within(FOR_ALL.saturating_sub(begun.elapsed()), pod.name, |_| node.report(pod.name).filter(|text| !text.is_empty()))?;
        ensure!(report == number.to_string(), "{} reports {report:?}", pod.name);
    }
    let up = begun.elapsed();
    let names: Vec<_> = pods.iter().map(|pod| pod.name).collect();
    let begun = Instant::now();
    node.cluster.kubectl.run(&[&["delete", "pod", "--wait=false"], &names[..]].concat())?;
    node.cluster.wait_within(FOR_ALL, "all of them to be gone", |kubectl| {
        let pods = kubectl.get(&["pods"])?;
        let left =
            pods["items"].as_array()?.iter().filter(|pod| pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("crowd-")));
        (left.count() == 0).then_some(())
    })?;
    Ok(format!(
        "{PODS} pods: all have their volumes after {:.0} s, all are gone {:.0} s later",
        up.as_secs_f64(),
        begun.elapsed().as_secs_f64()
    ))
}

/// Servers that do not answer. Dropped: they go on.
struct Silent(Vec<Process>);

impl Silent {
    fn make(names: &[&str]) -> Self {
        let is_one =
            |process: &Process| !process.is_sandboxed() && process.status("Name").is_some_and(|name| names.contains(&name.as_str()));
        let servers: Vec<_> = processes::on_this_network().into_iter().filter(is_one).collect();
        servers.iter().for_each(|server| server.signal(Signal::STOP));
        Self(servers)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.0.iter().for_each(|server| server.signal(Signal::CONT));
    }
}

const SOON: Duration = Duration::from_secs(30);

/// Pods that work on volumes whose servers have just died.
pub(in crate::k8s::scenarios) fn dead_servers(node: &mut Node) -> Result<String> {
    let volumes_of = |kind: &str| node.volumes().into_iter().filter(|mount| mount.fstype == kind).count();
    ensure!(volumes_of("fuse.sshfs") > 0 && volumes_of("fuse.glusterfs") > 0, "nothing is mounted: this proves nothing");
    let silent = Silent::make(&["sshd", "sshd-session", "glusterfsd"]);
    ensure!(silent.0.len() > 2, "no servers to stop");
    std::thread::sleep(Duration::from_secs(2));
    let begun = Instant::now();
    let pods = ["ssh-worker", "gluster-worker", "ssh-1", "ssh-2", "ssh-ro", "ssh-sub", "gluster-1"];
    node.cluster.kubectl.run(&[&["delete", "pod", "--wait=false"], &pods[..]].concat())?;
    let gone = |kubectl: &crate::k8s::kubectl::Kubectl| {
        let there = kubectl.get(&["pods"])?;
        let is_left =
            there["items"].as_array()?.iter().any(|pod| pod["metadata"]["name"].as_str().is_some_and(|name| pods.contains(&name)));
        (!is_left).then_some(())
    };
    node.cluster.wait_until("the pods to be gone", gone)?;
    let pods_gone = begun.elapsed();
    let unmounted = || (volumes_of("fuse.sshfs") == 0 && volumes_of("fuse.glusterfs") == 0).then_some(());
    wait::within(wait::PATIENCE, unmounted).with_context(|| format!("still mounted: {:?}", node.volumes()))?;
    let volumes_gone = begun.elapsed();
    drop(silent);
    ensure!(pods_gone <= SOON, "the pods were gone after {:.1} s", pods_gone.as_secs_f64());
    Ok(format!("pods gone after {:.1} s, volumes after {:.1} s", pods_gone.as_secs_f64(), volumes_gone.as_secs_f64()))
}

pub(in crate::k8s::scenarios) fn nothing_left(node: &mut Node) -> Result<String> {
    ensure!(!node.host.list().is_empty(), "nothing is mounted: this proves nothing");
    node.cluster.kubectl.run(&["delete", "pod", "--all", "--timeout=120s"])?;
    node.cluster.kubectl.run(&["delete", "persistentvolumeclaim", "--all", "--timeout=60s"])?;
    node.cluster.kubectl.run(&["delete", "persistentvolume", "--all", "--timeout=60s"])?;
    let gone = || (node.volumes().is_empty() && node.sandboxed().is_empty() && node.host.list().is_empty()).then_some(());
    wait::within(wait::PATIENCE, gone).with_context(|| {
        let processes: Vec<_> = node.sandboxed().iter().map(Process::describe).collect();
        format!("left: {:?} {processes:?} {:?}", node.volumes(), node.host.list())
    })?;
    Ok(String::new())
}
