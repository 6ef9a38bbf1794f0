//! The processes of this pid namespace, from /proc. Nothing in, pids out. A process may end, and another one begin, while
//! the scan goes on: a caller that must not miss any scans again.

use std::ffi::CString;
use std::fs::ReadDir;
use std::path::PathBuf;

use rustix::process::Pid;

/// Ends at once where /proc cannot be read.
#[derive(Debug)]
pub struct ProcessScan(Option<ReadDir>);

impl ProcessScan {
    pub fn start() -> Self {
        Self(std::fs::read_dir("/proc").ok())
    }
}

impl Iterator for ProcessScan {
    type Item = Pid;

    fn next(&mut self) -> Option<Pid> {
        // Beside the processes, /proc has files and directories with names.
        self.0.as_mut()?.flatten().find_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
    }
}

/// A process's directory in /proc.
pub fn directory(pid: Pid) -> PathBuf {
    PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()))
}

/// A file in there.
pub fn file(pid: Pid, name: &str) -> CString {
    CString::new(format!("/proc/{}/{name}", pid.as_raw_nonzero())).expect("no NUL in a number and a name of the kernel's")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_its_child_are_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found: Vec<_> = ProcessScan::start().collect();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&rustix::process::getpid()) && found.contains(&Pid::from_child(&child)));
        assert!(directory(rustix::process::getpid()).join("status").exists());
    }
}
