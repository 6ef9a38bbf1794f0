//! Kernel features that every mount needs. Probed, not deduced from the version: distributions backport features to old kernels.

use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, fsopen};
use shorefast_sys::sysctl;

use crate::finding::Finding;

struct Kernel {
    release: String,
    notifies: bool,
    mount_api: Result<(), Errno>,
    user_namespaces: UserNamespaces,
    may_trace: bool,
}

#[derive(PartialEq)]
enum UserNamespaces {
    Usable,
    SwitchedOff,
    Absent,
}

pub fn check() -> Finding {
    judge(&Kernel {
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        notifies: shorefast_sys::seccomp::is_supported(),
        // The context is never turned into a filesystem.
        mount_api: fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).map(drop),
        user_namespaces: match sysctl::has_user_namespaces() {
            true => UserNamespaces::Usable,
            false if std::path::Path::new("/proc/self/ns/user").exists() => UserNamespaces::SwitchedOff,
            false => UserNamespaces::Absent,
        },
        may_trace: !sysctl::is_tracing_forbidden(),
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
        Kernel { may_trace: false, .. } => Finding::bad(
            "kernel",
            format!("Linux {release}: kernel.yama.ptrace_scope=3 keeps the broker from reading the clients' calls"),
            "set it to 2 or less in /etc/sysctl.d and reboot; until then only --mode chroot works",
        ),
        Kernel { user_namespaces: UserNamespaces::Absent, .. } => Finding::warning(
            "kernel",
            format!("Linux {release}: without user namespaces, clients run as dedicated users"),
            "nothing, or use a kernel with CONFIG_USER_NS",
        ),
        Kernel { user_namespaces: UserNamespaces::SwitchedOff, .. } => Finding::warning(
            "kernel",
            format!("Linux {release}: user namespaces are switched off, so clients run as dedicated users"),
            "nothing, or sysctl user.max_user_namespaces=15000",
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
        let good = || Kernel {
            release: "6.1".to_owned(),
            notifies: true,
            mount_api: Ok(()),
            user_namespaces: UserNamespaces::Usable,
            may_trace: true,
        };
        let rows = [
            (good(), Verdict::Good, "all that is needed"),
            (Kernel { notifies: false, ..good() }, Verdict::Bad, "seccomp"),
            (Kernel { mount_api: Err(Errno::NOSYS), ..good() }, Verdict::Bad, "mount API"),
            (Kernel { mount_api: Err(Errno::PERM), ..good() }, Verdict::Bad, "may not mount"),
            (Kernel { user_namespaces: UserNamespaces::SwitchedOff, ..good() }, Verdict::Warning, "switched off"),
            (Kernel { user_namespaces: UserNamespaces::Absent, ..good() }, Verdict::Warning, "without user namespaces"),
            (Kernel { may_trace: false, ..good() }, Verdict::Bad, "ptrace_scope=3"),
        ];
        for (kernel, verdict, words) in rows {
            let finding = judge(&kernel);
            assert!(finding.verdict == verdict && finding.finding.contains(words), "{finding:?}");
            assert_eq!(finding.remedy.is_some(), verdict != Verdict::Good);
        }
    }
}
