//! Whether /dev/fuse, which every FUSE client needs, can be opened.

use std::os::fd::AsFd as _;

use rustix::io::Errno;
use shorefast_sys as sys;

use crate::finding::Finding;

pub fn check() -> Finding {
    judge(sys::fuse::open().map(|device| sys::fuse::is_device(device.as_fd())).map_err(|error| error.errno()))
}

/// `opened`: whether the opened file is the FUSE device, or the error.
fn judge(opened: Result<bool, Errno>) -> Finding {
    match opened {
        Ok(true) => Finding::good("fuse", "/dev/fuse can be opened"),
        Ok(false) => Finding::bad("fuse", "/dev/fuse is not the FUSE device", "rm /dev/fuse && mknod -m 666 /dev/fuse c 10 229"),
        Err(Errno::NOENT) => Finding::bad("fuse", "there is no /dev/fuse", "modprobe fuse, or mknod -m 666 /dev/fuse c 10 229"),
        Err(Errno::NODEV | Errno::NXIO) => {
            Finding::bad("fuse", "the kernel has no FUSE", "modprobe fuse, or use a kernel with CONFIG_FUSE_FS")
        }
        Err(error) => Finding::bad("fuse", format!("/dev/fuse cannot be opened: {error}"), "run it as root, where devices may be opened"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn every_way_to_lack_fuse_has_a_remedy() {
        assert_eq!(judge(Ok(true)).verdict, Verdict::Good);
        for lack in [Ok(false), Err(Errno::NOENT), Err(Errno::NODEV), Err(Errno::ACCESS)] {
            let finding = judge(lack);
            assert!(finding.verdict == Verdict::Bad && finding.remedy.is_some(), "{finding:?}");
        }
    }
}
