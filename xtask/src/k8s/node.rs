//! The node as scenarios see it: a cluster, a server to mount from, pods that report into a directory, and Shorefast.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use shorefast_tests::mountinfo::{self, Mount};
use shorefast_tests::processes::Process;
use shorefast_tests::servers::{Gluster, Sshd};
use shorefast_tests::{Host, Root};

use super::cluster::Cluster;
use super::images;
use super::pod::Pod;
use super::programs::Programs;

pub(crate) const PROGRAM: &str = "/opt/shorefast/shorefast";

pub(crate) struct Node {
    pub(crate) cluster: Cluster,
    pub(crate) gluster: Gluster,
    pub(crate) sshd: Sshd,
    reports: PathBuf,
    pub(crate) scratch: PathBuf,
    // Last: with it goes everything that is still there.
    pub(crate) host: Host,
}

impl Node {
    pub(crate) fn start(programs: Programs) -> Result<Self> {
        let host = Host::with_root(Root::Shared).context("the scenarios run where the tests do")?;
        for directory in ["/opt", "/dev/shm"] {
            run(&["mount", "-t", "tmpfs", "tmpfs", directory])?;
        }
        let (gluster, sshd) = (Gluster::start(&host), Sshd::start(&host));
        // A server that refuses, instead of one that is silent.
        run(&["ip", "address", "add", "10.98.0.1/32", "dev", "lo"])?;
        hide_clients()?;
        host.offer_packages();
        let archives = images::build(&programs, host.binary(), &host.directory("images"))?;
        let cluster = Cluster::start(&host, programs, &archives)?;
        let (reports, scratch) = (host.directory("reports"), host.directory("scratch"));
        cluster.kubectl.apply(include_str!("storage.yaml"), &scratch)?;
        Ok(Self { cluster, gluster, sshd, reports, scratch, host })
    }

    pub(crate) fn start_pod(&self, name: &str, volume: &str, script: &str) -> Result<()> {
        self.start_pods(&[Pod { name, volume, script, ..Pod::default() }])
    }

    pub(crate) fn start_pods(&self, pods: &[Pod<'_>]) -> Result<()> {
        let manifests: Vec<_> = pods.iter().map(|pod| pod.manifest(&self.reports)).collect();
        self.cluster.kubectl.apply(&manifests.join("---\n"), &self.scratch)
    }

    pub(crate) fn report(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.reports.join(name)).ok().map(|text| text.trim().to_owned())
    }

    pub(crate) fn wait_for_report(&self, name: &str) -> Result<String> {
        self.cluster.wait_until(&format!("a report of pod {name}"), |_| self.report(name).filter(|text| !text.is_empty()))
    }

    /// Waits until kubelet has complained about the pod's volume, and says how.
    pub(crate) fn complaint_about(&self, pod: &str) -> Result<String> {
        let selector = format!("involvedObject.name={pod},reason=FailedMount");
        self.cluster.wait_until(&format!("an event of pod {pod}"), |kubectl| {
            let events = kubectl.get(&["events", "--field-selector", &selector])?;
            let messages = events["items"].as_array()?.iter().filter_map(|event| event["message"].as_str());
            messages.into_iter().find(|message| message.contains("failed for volume")).map(str::to_owned)
        })
    }

    pub(crate) fn delete_pods(&self, names: &[&str]) -> Result<()> {
        self.cluster.kubectl.run(&[&["delete", "pod", "--wait=true", "--timeout=120s"], names].concat()).map(drop)
    }

    /// What Shorefast says, in JSON.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<Value> {
        let output = Command::new(PROGRAM).args(arguments).output().context("cannot start the installed program")?;
        serde_json::from_slice(&output.stdout).with_context(|| format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    pub(crate) fn live_mounts(&self) -> Result<Vec<Value>> {
        Ok(self.ask(&["list", "--json"])?.as_array().context("a list")?.clone())
    }

    /// The node's table, as far as it is about volumes of ours.
    pub(crate) fn volumes(&self) -> Vec<Mount> {
        mountinfo::here().into_iter().filter(|mount| mount.fstype.starts_with("fuse") || mount.fstype.starts_with("nfs")).collect()
    }

    pub(crate) fn sandboxed(&self) -> Vec<Process> {
        self.host.sandboxed()
    }
}

/// The server's package brings helpers for mount(8), too. A node has none.
fn hide_clients() -> Result<()> {
    for helper in ["mount.glusterfs", "umount.glusterfs", "mount.nfs", "mount.nfs4", "umount.nfs", "umount.nfs4"] {
        let path = Path::new("/sbin").join(helper);
        if path.exists() {
            run(&["mount", "--bind", "/dev/null", path.to_str().context("our own path")?])?;
        }
    }
    let tried = Command::new("mount").args(["-t", "glusterfs", "10.99.0.1:/v0", "/mnt"]).output()?;
    ensure!(!tried.status.success(), "this host can mount glusterfs without us");
    Ok(())
}

pub(crate) fn run(words: &[&str]) -> Result<String> {
    crate::process::output(Command::new(words[0]).args(&words[1..]))
}
