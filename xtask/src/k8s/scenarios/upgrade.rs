//! What may be replaced while pods work: kubelet, and Shorefast's DaemonSet.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::deploy::wait_for_rollout;
use super::volumes::INLINE;
use crate::k8s::images::{NEWER_SHOREFAST, SHOREFAST};
use crate::k8s::node::{Node, PROGRAM};

/// How long the pod works before and after what is done to it.
const WHILE: Duration = Duration::from_secs(3);

/// What the pod has done so far, and how much of that failed.
fn work(node: &Node, pod: &str) -> Result<(u64, u64)> {
    let report = node.report(pod).with_context(|| format!("pod {pod} reports nothing"))?;
    let (good, bad) = report.split_once(' ').with_context(|| format!("an odd report: {report}"))?;
    Ok((good.parse()?, bad.parse()?))
}

pub(super) fn under_work(node: &mut Node, pods: &[&str], change: impl FnOnce(&mut Node) -> Result<()>) -> Result<String> {
    under_work_that(node, pods, 0, change)
}

/// The same, where so many operations of each pod may fail.
pub(super) fn under_work_that(
    node: &mut Node,
    pods: &[&str],
    may_fail: u64,
    change: impl FnOnce(&mut Node) -> Result<()>,
) -> Result<String> {
    let all = |node: &Node| pods.iter().map(|pod| work(node, pod)).collect::<Result<Vec<_>>>();
    let before = all(node)?;
    std::thread::sleep(WHILE);
    change(node)?;
    // What they do only afterwards counts, too: what was waiting for an answer has it now, or an error.
    let at_the_change = all(node)?;
    std::thread::sleep(WHILE);
    let after = all(node)?;
    let mut all_failed = 0;
    for (index, pod) in pods.iter().enumerate() {
        let (good, failed) = (after[index].0, after[index].1 - before[index].1);
        ensure!(good > at_the_change[index].0, "pod {pod} stopped working after {good} operations");
        ensure!(failed <= may_fail, "{failed} of {good} operations of pod {pod} failed");
        all_failed += failed;
    }
    let done = |all: &[(u64, u64)]| all.iter().map(|(good, _)| good).sum::<u64>();
    Ok(format!("{all_failed} of {} operations failed", done(&after) - done(&before)))
}

pub(super) fn restart_kubelet(node: &mut Node) -> Result<String> {
    let mounts = node.volumes().len();
    let remark = under_work(node, &["worker"], |node| node.cluster.restart_kubelet())?;
    ensure!(node.volumes().len() == mounts, "{mounts} mounts before, {} after", node.volumes().len());
    Ok(remark)
}

pub(super) fn daemon_set(node: &mut Node) -> Result<String> {
    let old = fs::metadata(PROGRAM)?.len();
    let remark = under_work(node, &["worker"], |node| {
        let image = format!("install={NEWER_SHOREFAST}");
        node.cluster.kubectl.run(&["set", "image", "daemonset/shorefast", &image, "--namespace", "kube-system"])?;
        wait_for_rollout(node, "shorefast")?;
        node.cluster.wait_until("the newer program on the node", |_| (fs::metadata(PROGRAM).ok()?.len() > old).then_some(()))
    })?;
    node.start_pod("later", INLINE, "echo started > /report/later; sleep 1")?;
    node.wait_for_report("later")?;
    let programs = keepers_programs(node)?;
    let (older, newer): (Vec<_>, Vec<_>) = programs.iter().partition(|path| path.to_string_lossy().ends_with("(deleted)"));
    ensure!(!older.is_empty() && !newer.is_empty(), "kept programs: {programs:?}");
    Ok(format!("{SHOREFAST} to {NEWER_SHOREFAST}: {remark}"))
}

/// Each mount's keeper holds the program of the version that made the mount.
fn keepers_programs(node: &Node) -> Result<Vec<PathBuf>> {
    let mut programs = Vec::new();
    for mount in node.live_mounts()? {
        let target = mount["target"].as_str().context("a target")?;
        let pid = node.ask(&["inspect", "--json", target])?["keeper"].as_u64().context("a keeper")?;
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.filter_map(Result::ok);
        let links = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        programs.extend(links.filter(|path| path.starts_with("/opt/shorefast")));
    }
    Ok(programs)
}
