//! Clients that are killed while pods work on their volumes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use shorefast_tests::processes::Process;
use shorefast_tests::wait;

use super::restarts::WORKERS;
use crate::k8s::node::Node;
use crate::k8s::scenarios::upgrade::under_work_that;

/// What a client was just answering when it was killed can fail, and what holds a file open: a round of a pod's work is three operations.
const AT_MOST: u64 = 2;
const KILLS: u64 = 3;

/// Nothing is restarted for it: kubelet, the driver and the pods notice nothing.
pub(in crate::k8s::scenarios) fn goes_on(node: &mut Node) -> Result<String> {
    let clients = |node: &Node, name: &str| -> Vec<Process> {
        node.sandboxed().into_iter().filter(|process| process.status("Name").as_deref() == Some(name)).collect()
    };
    let restarts = |node: &Node| -> Result<Vec<(String, u64)>> {
        let pods = node.cluster.kubectl.get(&["pods"]).context("no pods")?;
        let of = |pod: &serde_json::Value| {
            let count = pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or_default();
            (pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned(), count)
        };
        Ok(pods["items"].as_array().context("a list")?.iter().map(of).collect())
    };
    let before = restarts(node)?;
    let mut remarks = Vec::new();
    for (worker, client) in WORKERS.into_iter().zip(["sshfs", "glusterfs", "bindfs"]) {
        let remark = under_work_that(node, &[worker], AT_MOST * KILLS, |node| {
            for _ in 0..KILLS {
                let old = clients(node, client);
                ensure!(!old.is_empty(), "no {client} runs");
                old.iter().for_each(|process| process.signal(Signal::KILL));
                let is_new = || {
                    let new = clients(node, client);
                    let all_serve = || node.host.list().iter().all(|mount| mount["state"] == "serving");
                    (!new.is_empty() && new.iter().all(|process| !old.contains(process)) && all_serve()).then_some(())
                };
                wait::within(wait::PATIENCE, is_new).with_context(|| format!("no other {client}: {:?}", node.host.list()))?;
                std::thread::sleep(Duration::from_secs(1));
            }
            Ok(())
        })?;
        remarks.push(format!("{client}: {remark}"));
    }
    ensure!(restarts(node)? == before, "a pod was restarted, or another one is there");
    Ok(remarks.join("; "))
}
