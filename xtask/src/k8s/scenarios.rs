//! What is tried on the node, in order: each scenario builds on those before it.

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

const SCENARIOS: &[Scenario] = &[
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

pub(super) fn run(programs: Programs, only: Option<&str>) -> Result<ExitCode> {
    let begun = Instant::now();
    let mut node = Node::start(programs)?;
    let mut rows = vec![Row { name: "a node starts", seconds: begun.elapsed().as_secs_f64(), outcome: Ok(String::new()) }];
    eprintln!("{}", rows[0]);
    let last = only.and_then(|words| SCENARIOS.iter().rposition(|(name, _)| name.contains(words))).unwrap_or(SCENARIOS.len() - 1);
    for (name, scenario) in &SCENARIOS[..=last] {
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
