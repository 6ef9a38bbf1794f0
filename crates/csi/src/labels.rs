//! In: options of a volume, and whether this host has SELinux. Out: those that the host can fulfil. Where there is no SELinux, mount(8) takes labels
//! away, and so do we: one PersistentVolume is for all nodes of a cluster.

use std::fs;

use shorefast_engine::options;
use tonic::Status;

/// Each has a value, with commas in double quotes.
pub(crate) const LABELS: [&str; 4] = ["context", "fscontext", "defcontext", "rootcontext"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selinux {
    On,
    Off,
}

impl Selinux {
    /// The kernel has its filesystem unless it was switched off at boot.
    pub fn of_this_host() -> Self {
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if known.lines().any(|line| line.split_whitespace().last() == Some("selinuxfs")) { Self::On } else { Self::Off }
    }
}

pub fn for_host(given: String, selinux: Selinux) -> Result<String, Status> {
    let wrong = |error: shorefast_engine::Error| Status::invalid_argument(error.to_string());
    let names = options::names(&given).map_err(wrong)?;
    let has_labels = names.iter().any(|name| LABELS.contains(&name.as_str()));
    if has_labels && selinux == Selinux::Off { options::without(&given, &LABELS).map_err(wrong) } else { Ok(given) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_stay_whole_or_go_whole() {
        let kubelets = r#"vers=4.2,context="system_u:object_r:container_file_t:s0:c15,c25",noatime"#;
        let rows = [
            (kubelets, Selinux::On, Some(kubelets)),
            (kubelets, Selinux::Off, Some("vers=4.2,noatime")),
            ("fscontext=a:b:c:s0,rootcontext=x,defcontext=y,ro", Selinux::Off, Some("ro")),
            ("contextual=1,,a", Selinux::Off, Some("contextual=1,,a")),
            ("", Selinux::Off, Some("")),
            (r#"context="a"#, Selinux::On, None),
            (r#"context="a"#, Selinux::Off, None),
        ];
        for (given, selinux, expected) in rows {
            let got = for_host(given.to_owned(), selinux);
            assert_eq!(got.as_deref().ok(), expected, "{given:?} {selinux:?}");
            if let Err(status) = got {
                assert_eq!(status.code(), tonic::Code::InvalidArgument);
            }
        }
        // What kubelet says is one option with the value that the kernel is to get.
        let items = options::parse(kubelets).unwrap().items;
        let label = items.iter().find(|item| item.name == "context").and_then(|item| item.value.as_deref());
        assert_eq!(label, Some(r#""system_u:object_r:container_file_t:s0:c15,c25""#));
    }
}
