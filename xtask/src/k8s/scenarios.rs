//! What is tried on the node, in order: each scenario builds on those before it of the same part.

mod csi;
mod deploy;
mod upgrade;
mod volumes;

use std::fmt;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;

use super::node::Node;
use super::programs::Programs;

/// A sentence, and what proves it; it may have something to remark.
type Scenario = (&'static str, fn(&mut Node) -> Result<String>);

const PARTS: &[&[Scenario]] = &[MOUNTER, CSI];

/// kubelet's own volumes, by its mounter.
const MOUNTER: &[Scenario] = &[
    ("a static pod puts the mounter on the node", deploy::static_pod),
    ("the DaemonSet puts the mounter and the ConfigMap's clients on the node", deploy::daemon_set),
    ("a changed ConfigMap reaches the node, a malformed one changes nothing", deploy::config_map),
    ("storage administrators may change the ConfigMap and nothing else", deploy::rights),
    ("a restarted kubelet writes the cluster's name servers beside the mounter", deploy::name_servers),
    ("doctor finds the node fit", deploy::doctor),
    ("glusterfs inline, rw: a pod writes and reads", volumes::inline_rw),
    ("the daemon is not in kubelet's control group", volumes::outside_kubelets_group),
    ("glusterfs inline, ro: a pod reads and cannot write", volumes::inline_ro),
    ("glusterfs through a PersistentVolume, rw: a second pod shares the files", volumes::persistent_rw),
    ("glusterfs through a PersistentVolume, ro", volumes::persistent_ro),
    ("kubelet restarts under running I/O", upgrade::restart_kubelet),
    ("the DaemonSet is upgraded under running I/O, new mounts use the new version", upgrade::daemon_set),
    ("a wrong volume name gives an event that says what is wrong", volumes::wrong_name),
    ("nfs fails on this kernel, which lacks it, with one clear sentence", volumes::nfs),
    ("deleting the pods leaves nothing", volumes::nothing_left),
    ("removing the DaemonSet and uninstalling leaves nothing", deploy::removal),
];

const CSI: &[Scenario] = &[
    ("CSI: helm installs the chart, and removes it", csi::deploy::chart),
    ("CSI: kubectl applies the manifests, kubelet registers the driver", csi::deploy::manifests),
    ("CSI: static volumes of sshfs with its key in a Secret, glusterfs and bindfs", csi::volumes::static_ones),
    ("CSI: two pods share a volume, a third reads only, by one client", csi::volumes::shared),
    ("CSI: volumes written in pods, and what their authors may not", csi::volumes::inline_ones),
    ("CSI: a sub-path of a volume", csi::volumes::sub_path),
    ("CSI: fsGroup changes no file on the server", csi::volumes::group),
    ("CSI: volumes on demand of sshfs, glusterfs and bindfs, archived, deleted and retained", csi::on_demand::made_and_removed),
    ("CSI: mistakes give events that say what is wrong", csi::mistakes::explained),
    ("CSI: the driver's pod is deleted under running I/O", csi::restarts::deleted),
    ("CSI: the driver is upgraded under running I/O", csi::restarts::upgraded),
    ("CSI: the driver runs out of memory under running I/O", csi::restarts::out_of_memory),
    ("CSI: kubelet restarts under running I/O", csi::restarts::kubelet),
    ("CSI: containerd restarts under running I/O", csi::restarts::containerd),
    ("CSI: clients are killed while pods work, and the pods go on", csi::healing::goes_on),
    ("CSI: a service account's token reaches the client that asks for it", csi::republish::token),
    ("CSI: fifty pods at once", csi::crowd::many),
    ("CSI: pods on dead servers are gone within 30 s", csi::crowd::dead_servers),
    ("CSI: a changed Secret reaches the clients of mounted volumes", csi::republish::changed_secret),
    ("CSI: deleting pods, claims and volumes leaves nothing", csi::crowd::nothing_left),
    ("CSI: removing the driver leaves nothing", csi::deploy::removal),
];

pub(super) fn run(programs: Programs, only: Option<&str>) -> Result<ExitCode> {
    let begun = Instant::now();
    let mut node = Node::start(programs)?;
    let mut rows = vec![Row { name: "a node starts", seconds: begun.elapsed().as_secs_f64(), outcome: Ok(String::new()) }];
    eprintln!("{}", rows[0]);
    for (name, scenario) in PARTS.iter().flat_map(|part| wanted(part, only)) {
        let begun = Instant::now();
        let outcome = scenario(&mut node).map_err(|error| format!("{error:#}"));
        rows.push(Row { name, seconds: begun.elapsed().as_secs_f64(), outcome });
        eprintln!("{}", rows[rows.len() - 1]);
    }
    let failed = rows.iter().filter(|row| row.outcome.is_err()).count();
    println!("| scenario | result | s |\n|---|---|---|");
    rows.iter().for_each(|row| println!("{}", row.in_table()));
    println!("\n{} scenarios, {failed} failed, {:.0} s", rows.len(), begun.elapsed().as_secs_f64());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All of a part, or those up to the last one with these words in its name.
fn wanted(part: &'static [Scenario], only: Option<&str>) -> &'static [Scenario] {
    let Some(words) = only else { return part };
    part.iter().rposition(|(name, _)| name.contains(words)).map_or(&[], |last| &part[..=last])
}

struct Row {
    name: &'static str,
    seconds: f64,
    outcome: Result<String, String>,
}

impl Row {
    fn in_table(&self) -> String {
        let result = match &self.outcome {
            Ok(remark) if remark.is_empty() => "holds".to_owned(),
            Ok(remark) => format!("holds: {remark}"),
            Err(error) => format!("FAILS: {}", error.lines().next().unwrap_or_default()),
        };
        format!("| {} | {result} | {:.1} |", self.name, self.seconds)
    }
}

/// While it runs: everything that is known about a failure.
impl fmt::Display for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Ok(remark) => write!(out, "{:6.1} s  holds  {} {remark}", self.seconds, self.name),
            Err(error) => write!(out, "{:6.1} s  FAILS  {}\n{error}", self.seconds, self.name),
        }
    }
}
