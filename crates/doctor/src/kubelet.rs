//! If a kubelet runs here: whether it mounts through us, and whether it writes the cluster's name servers for us.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use shorefast_sys::bounded_call::{self, Answer};
use shorefast_sys::process_scan::{self, ProcessScan};

use crate::finding::Finding;

const FLAG: &str = "--experimental-mounter-path";

/// Nothing, on hosts without kubelet.
pub fn check() -> Vec<Finding> {
    command_lines().filter(|words| is_kubelet(words)).flat_map(|words| judge(mounter(&words).as_deref(), look)).collect()
}

/// What is at the path of a mounter.
struct Look {
    program: Option<PathBuf>,
    executable: bool,
    resolver_directory: bool,
    resolver: bool,
}

fn look(mounter: &Path) -> Look {
    let resolver = mounter.with_file_name("rootfs/etc");
    Look {
        program: fs::canonicalize(mounter).ok(),
        executable: fs::metadata(mounter).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0),
        resolver_directory: resolver.is_dir(),
        resolver: resolver.join("resolv.conf").is_file(),
    }
}

fn judge(mounter: Option<&Path>, look: impl Fn(&Path) -> Look) -> Vec<Finding> {
    let Some(mounter) = mounter else {
        let remedy = "`shorefast install --kubelet`, then start kubelet with the flag it prints; for CSI nothing is to be done";
        return vec![Finding::warning("kubelet", format!("kubelet runs without {FLAG}: it mounts with the host's clients"), remedy)];
    };
    let (found, shown) = (look(mounter), mounter.display());
    if !found.executable {
        let remedy = format!("shorefast install --kubelet --to {}", mounter.parent().unwrap_or(Path::new("/")).display());
        return vec![Finding::bad("kubelet", format!("kubelet's mounter {shown} cannot be executed"), remedy)];
    }
    if mounter.file_name() != Some("mounter".as_ref()) {
        let remedy = "`shorefast install --kubelet` makes a link of the right name";
        return vec![Finding::bad(
            "kubelet",
            format!("kubelet's mounter {shown} is not called mounter: Shorefast would not recognise kubelet's calls"),
            remedy,
        )];
    }
    let program = found.program.unwrap_or_default();
    let mut findings = vec![Finding::good("kubelet", format!("kubelet mounts through {shown} ({})", program.display()))];
    if !found.resolver_directory {
        let remedy = format!("mkdir -p {}/rootfs/etc, then restart kubelet", mounter.parent().unwrap_or(Path::new("/")).display());
        findings.push(Finding::warning("kubelet", "kubelet cannot write the cluster's name servers beside the mounter", remedy));
    } else if !found.resolver {
        let finding = "kubelet did not write the cluster's name servers beside the mounter";
        findings.push(Finding::warning("kubelet", finding, "restart kubelet: it writes them when it starts, if clusterDNS is set"));
    }
    findings
}

/// Only of processes in our mount namespace: paths of others may mean other files.
fn command_lines() -> impl Iterator<Item = Vec<String>> {
    // Read for few processes only: a process can delay reading its command line for as long as it likes.
    let is_called_so = |pid: &Pid| {
        let name = fs::read_to_string(process_scan::directory(*pid).join("comm")).unwrap_or_default();
        ["kubelet", "hyperkube"].contains(&name.trim_end())
    };
    let (pids, deadline) = (ProcessScan::start().filter(is_called_so).collect::<Vec<_>>(), Instant::now() + PATIENCE);
    let ours = fs::metadata("/proc/self/ns/mnt").map_or(Answer::Hangs, |ours| Answer::Known(ours.ino()));
    let namespaces = bounded_call::namespaces_of(&pids, "mnt", deadline);
    let beside_us = pids.into_iter().zip(namespaces).filter_map(move |(pid, namespace)| (namespace == ours).then_some(pid));
    let line = move |pid: Pid| {
        let read = bounded_call::read(&process_scan::directory(pid).join("cmdline"), LONGEST_LINE, deadline);
        read.or_timed_out(String::new).ok()
    };
    beside_us.filter_map(line).map(|line| words(&line))
}

/// For all kubelets together.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST_LINE: usize = 1 << 20;

fn words(line: &[u8]) -> Vec<String> {
    line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Also as a subcommand of one large binary: `hyperkube kubelet`.
fn is_kubelet(words: &[String]) -> bool {
    let name = |word: &String| Path::new(word).file_name().is_some_and(|name| name == "kubelet");
    words.first().is_some_and(name) || (words.first().is_some_and(|word| word.ends_with("hyperkube")) && words.get(1).is_some_and(name))
}

fn mounter(words: &[String]) -> Option<PathBuf> {
    let attached = words.iter().find_map(|word| word.strip_prefix(FLAG)?.strip_prefix('='));
    let separate = || words.iter().position(|word| word == FLAG).and_then(|at| words.get(at + 1)).map(String::as_str);
    attached.or_else(separate).filter(|path| !path.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn the_flag_is_found_in_both_forms() {
        let rows = [
            ("kubelet\0--v=2\0--experimental-mounter-path=/opt/m/mounter\0", true, Some("/opt/m/mounter")),
            ("/usr/bin/hyperkube\0kubelet\0--experimental-mounter-path\0/m/mounter\0", true, Some("/m/mounter")),
            ("/usr/bin/kubelet\0--experimental-mounter-path=\0", true, None),
            ("vi\0kubelet\0", false, None),
        ];
        for (line, runs, path) in rows {
            let words = words(line.as_bytes());
            assert_eq!((is_kubelet(&words), mounter(&words)), (runs, path.map(PathBuf::from)), "{line}");
        }
    }

    #[test]
    fn each_fault_of_the_mounter_is_named() {
        let good = || Look { program: Some("/opt/shorefast".into()), executable: true, resolver_directory: true, resolver: true };
        let judged = |path: &str, look: Look| {
            let look = std::cell::Cell::new(Some(look));
            judge(Some(Path::new(path)), |_| look.take().unwrap())
        };
        assert_eq!(judge(None, look)[0].verdict, Verdict::Warning);
        assert_eq!(judged("/m/mounter", good()).len(), 1);
        assert_eq!(judged("/m/shorefast", good())[0].verdict, Verdict::Bad);
        assert_eq!(judged("/m/mounter", Look { executable: false, ..good() })[0].verdict, Verdict::Bad);
        assert!(judged("/m/mounter", Look { resolver_directory: false, ..good() })[1].finding.contains("cannot write"));
        assert!(judged("/m/mounter", Look { resolver: false, ..good() })[1].finding.contains("did not write"));
    }
}
