//! Whether there is FUSE, which most clients need. Nothing is loaded: /dev/fuse is opened only if it is there, and otherwise the kernel's lists
//! are read.

use std::os::fd::AsFd as _;

use rustix::io::Errno;
use shorefast_sys as sys;

use crate::finding::Finding;
use crate::modules;

pub fn check() -> Finding {
    let opened = sys::fuse::open_host_node().map(|device| sys::fuse::is_device(device.as_fd())).map_err(|error| error.errno());
    judge(opened, modules::find("fuse", &["fuse"]), sys::sysctl::are_modules_locked())
}

/// `opened`: whether the opened file is the FUSE device, or the error.
fn judge(opened: Result<bool, Errno>, module: modules::Found, are_modules_locked: bool) -> Finding {
    use modules::Found::{Absent, Loadable, Running};
    match (opened, module) {
        (Ok(true), _) => Finding::good("fuse", "/dev/fuse can be opened"),
        (Ok(false), _) => Finding::bad("fuse", "/dev/fuse is not the FUSE device", "rm /dev/fuse && mknod -m 666 /dev/fuse c 10 229"),
        (Err(Errno::NOENT), Running) => Finding::good("fuse", "the kernel has FUSE; clients need no /dev/fuse of the host"),
        (Err(_), Loadable) if are_modules_locked => Finding::bad(
            "fuse",
            "the module of FUSE is not loaded, and kernel.modules_disabled=1 forbids to load it",
            "load it at boot, before that is set: echo fuse > /etc/modules-load.d/fuse.conf",
        ),
        (Err(Errno::NOENT | Errno::NODEV | Errno::NXIO), Loadable) => {
            Finding::warning("fuse", "the module of FUSE is not loaded; the first mount loads it, if modprobe works here", "modprobe fuse")
        }
        (Err(Errno::NOENT | Errno::NODEV | Errno::NXIO), Absent) => Finding::bad(
            "fuse",
            "the kernel has no FUSE, nor a module of it in /lib/modules",
            "modprobe fuse, install the package of modules, or use a kernel with CONFIG_FUSE_FS",
        ),
        (Err(error), _) => {
            Finding::bad("fuse", format!("/dev/fuse cannot be opened: {error}"), "run it as root, where devices may be opened")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;
    use modules::Found::{Absent, Loadable, Running};

    #[test]
    fn every_way_to_lack_fuse_has_a_remedy() {
        let rows = [
            (Ok(true), Running, false, Verdict::Good),
            (Err(Errno::NOENT), Running, true, Verdict::Good),
            (Err(Errno::NOENT), Loadable, false, Verdict::Warning),
            (Err(Errno::NODEV), Loadable, false, Verdict::Warning),
            (Err(Errno::NOENT), Loadable, true, Verdict::Bad),
            (Err(Errno::NODEV), Absent, false, Verdict::Bad),
            (Err(Errno::PERM), Running, false, Verdict::Bad),
            (Ok(false), Running, false, Verdict::Bad),
        ];
        for (opened, module, locked, verdict) in rows {
            let finding = judge(opened, module, locked);
            assert_eq!((finding.verdict, finding.remedy.is_none()), (verdict, verdict == Verdict::Good), "{finding:?}");
        }
    }
}
