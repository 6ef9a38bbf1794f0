//! Cgroups: for limits, and so that a client does not end with the service that requested its mount.

use rustix::fs::{Access, access};
use shorefast_sys::mountinfo::{self, Entry};

use crate::finding::Finding;

/// The controllers that `limits` in a definition can use.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

pub fn check() -> Finding {
    let entries = mountinfo::read().unwrap_or_default();
    let hierarchies: Vec<_> = entries.iter().filter(|entry| entry.fstype.starts_with("cgroup")).collect();
    let available: Vec<_> = hierarchies.iter().flat_map(|entry| controllers(entry)).collect();
    let writable = hierarchies.iter().any(|entry| access(&entry.mount_point, Access::WRITE_OK).is_ok() && !is_read_only(entry));
    judge(&available, !hierarchies.is_empty(), writable)
}

/// In version 1 the names are mount options, in version 2 they are in a file.
fn controllers(entry: &Entry) -> Vec<String> {
    if entry.fstype == "cgroup2" {
        let names = std::fs::read_to_string(entry.mount_point.join("cgroup.controllers")).unwrap_or_default();
        return names.split_ascii_whitespace().map(str::to_owned).collect();
    }
    entry.super_options.to_string_lossy().split(',').map(str::to_owned).collect()
}

fn is_read_only(entry: &Entry) -> bool {
    entry.options.split(',').any(|option| option == "ro")
}

fn judge(available: &[String], mounted: bool, writable: bool) -> Finding {
    let missing: Vec<_> = CONTROLLERS.into_iter().filter(|name| !available.iter().any(|other| other == name)).collect();
    match (mounted, writable, missing.is_empty()) {
        (false, ..) => Finding::warning("cgroups", "no cgroup hierarchy is mounted", "mount -t cgroup2 cgroup2 /sys/fs/cgroup"),
        (_, false, _) => Finding::warning(
            "cgroups",
            "no cgroup hierarchy is writable: limits fail, and clients stay in the cgroup of the launching process",
            "run it on the host, or with /sys/fs/cgroup writable",
        ),
        (_, _, false) => Finding::warning(
            "cgroups",
            format!("no controller for {}: definitions that limit it fail", missing.join(", ")),
            "leave such limits out of client definitions, or boot with the controller enabled",
        ),
        _ => Finding::good("cgroups", "memory, pids and cpu can be limited"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn a_lack_is_a_warning_since_only_limits_need_groups() {
        let all = CONTROLLERS.map(str::to_owned);
        assert_eq!(judge(&all, true, true).verdict, Verdict::Good);
        for (available, mounted, writable, words) in
            [(&all[..], false, false, "mounted"), (&all[..], true, false, "writable"), (&all[..1], true, true, "pids, cpu")]
        {
            let finding = judge(available, mounted, writable);
            assert!(finding.verdict == Verdict::Warning && finding.finding.contains(words), "{finding:?}");
        }
    }
}
