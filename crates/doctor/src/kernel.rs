//! Kernel features that every mount needs. Probed, not deduced from the version: distributions backport features to old kernels.

use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, fsopen};

use crate::finding::Finding;

struct Kernel {
    release: String,
    notifies: bool,
    mount_api: Result<(), Errno>,
    user_namespaces: Option<u64>,
}

pub fn check() -> Finding {
    let namespaces = std::fs::read_to_string("/proc/sys/user/max_user_namespaces").unwrap_or_default();
    judge(&Kernel {
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        notifies: shorefast_sys::seccomp::is_supported(),
        // The context is never turned into a filesystem.
        mount_api: fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).map(drop),
        user_namespaces: namespaces.trim().parse().ok(),
    })
}

fn judge(kernel: &Kernel) -> Finding {
    let release = &kernel.release;
    let older = "Linux 5.19 or newer is needed (docs/KERNEL.md)";
    match kernel {
        Kernel { mount_api: Err(Errno::PERM), .. } => {
            Finding::bad("kernel", format!("Linux {release}: this process may not mount"), "run it as root, outside of containers")
        }
        Kernel { mount_api: Err(error), .. } => Finding::bad("kernel", format!("Linux {release}: no new mount API ({error})"), older),
        Kernel { notifies: false, .. } => {
            Finding::bad("kernel", format!("Linux {release}: no seccomp notifications that wait until they are answered"), older)
        }
        Kernel { user_namespaces: None, .. } => Finding::warning(
            "kernel",
            format!("Linux {release}: without user namespaces, clients run as dedicated users"),
            "nothing, or use a kernel with CONFIG_USER_NS",
        ),
        Kernel { user_namespaces: Some(0), .. } => Finding::warning(
            "kernel",
            format!("Linux {release}: user namespaces are switched off"),
            "sysctl user.max_user_namespaces=15000",
        ),
        _ => Finding::good("kernel", format!("Linux {release} has all that is needed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn each_lack_is_named() {
        let good = || Kernel { release: "6.1".to_owned(), notifies: true, mount_api: Ok(()), user_namespaces: Some(1000) };
        let rows = [
            (good(), Verdict::Good, "all that is needed"),
            (Kernel { notifies: false, ..good() }, Verdict::Bad, "seccomp"),
            (Kernel { mount_api: Err(Errno::NOSYS), ..good() }, Verdict::Bad, "mount API"),
            (Kernel { mount_api: Err(Errno::PERM), ..good() }, Verdict::Bad, "may not mount"),
            (Kernel { user_namespaces: Some(0), ..good() }, Verdict::Warning, "switched off"),
            (Kernel { user_namespaces: None, ..good() }, Verdict::Warning, "dedicated users"),
        ];
        for (kernel, verdict, words) in rows {
            let finding = judge(&kernel);
            assert!(finding.verdict == verdict && finding.finding.contains(words), "{finding:?}");
            assert_eq!(finding.remedy.is_some(), verdict != Verdict::Good);
        }
    }
}
