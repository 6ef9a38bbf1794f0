//! In: a sandbox's first process. Out: the process that serves its mount. A client may leave several to the sandbox's pid 1 (sshfs leaves
//! ssh), and only the end of this one says whether all was written.

use std::fs;

/// Among the children of the sandbox's first process, the one that holds the FUSE device.
pub fn of(init: i32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{init}/task/{init}/children")).ok()?;
    let children: Vec<i32> = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    match children[..] {
        [] => None,
        [only] => Some(only),
        [first, ..] => Some(children.iter().copied().find(|pid| holds_fuse(*pid)).unwrap_or(first)),
    }
}

/// Its pid in its own pid namespace.
pub fn pid_inside(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_ascii_whitespace().last()?.parse().ok()
}

fn holds_fuse(pid: i32) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    descriptors.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.ends_with("dev/fuse")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_pid_of_its_own() {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        assert_eq!(pid_inside(own), Some(own));
    }
}
