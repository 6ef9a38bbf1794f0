//! In: a request that no client serves, or that asks for the host's helper. Out: a mount made by mount(8). We keep nothing of it: no
//! record, no keeper, and umount(8) unmounts it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::error::{Awaited, Diagnostics, Error};
use crate::host_helper::{self, Helper};
use crate::mode::Place;
use crate::options;
use crate::request::{HelperFlag, Request};
use crate::text;

/// The plan of such a mount.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Why no client is used.
    pub why: String,
    pub fstype: Option<String>,
    pub source: OsString,
    pub target: PathBuf,
    pub options: String,
    pub flags: Vec<HelperFlag>,
    pub namespace: Option<PathBuf>,
    helpers: Helpers,
    pub timeout: Duration,
}

/// Set in the environment of the mount(8) that we run, and so inherited by its helper.
const FROM_US: &str = "SHOREFAST_RUNS_MOUNT";

/// Whether mount(8) may run helpers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Helpers {
    Allowed,
    /// The type's helper is Shorefast: it would call mount(8) again.
    Forbidden,
}

impl HostPlan {
    pub fn make(request: &Request, why: String) -> Self {
        // A copy of Shorefast looks like any other helper; the environment variable reveals the loop.
        let is_ours = |fstype: &String| matches!(host_helper::find(fstype), Helper::Ours(_)) || std::env::var_os(FROM_US).is_some();
        Self {
            why,
            fstype: request.fstype.clone(),
            source: request.source.clone(),
            target: std::path::absolute(&request.target).unwrap_or_else(|_| request.target.clone()),
            options: request.options.clone(),
            flags: request.flags.clone(),
            namespace: request.namespace.clone(),
            helpers: if request.fstype.as_ref().is_some_and(is_ours) { Helpers::Forbidden } else { Helpers::Allowed },
            timeout: request.timeout,
        }
    }

    fn command(&self, options: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["mount".into()];
        if self.helpers == Helpers::Forbidden {
            words.push("-i".into());
        }
        words.extend(self.flags.iter().map(|flag| flag.word().into()));
        if let Some(namespace) = &self.namespace {
            words.extend(["-N".into(), namespace.into()]);
        }
        if let Some(fstype) = &self.fstype {
            words.extend(["-t".into(), fstype.into()]);
        }
        if !options.is_empty() {
            words.extend(["-o".into(), options.into()]);
        }
        words.extend(["--".into(), self.source.clone(), self.target.clone().into()]);
        words
    }

    /// The documented form; values that could be secrets are left out.
    pub fn to_json(&self) -> Value {
        let shown = |text: &OsStr| text::escape(text.as_bytes());
        let command: Vec<_> = self.command(&options::redacted(&self.options)).iter().map(|word| shown(word)).collect();
        json!({
            "mode": Place::Host,
            "why": self.why,
            "type": self.fstype,
            "source": shown(&self.source),
            "target": shown(self.target.as_os_str()),
            "command": command,
            "timeout_seconds": self.timeout.as_secs_f64(),
        })
    }
}

/// Runs mount(8) to its end.
pub fn run(plan: &HostPlan) -> Result<(), Error> {
    let start = |source| Error::MountProgram { source };
    // A file, not a pipe: a daemon that mount(8) leaves behind may keep it open indefinitely.
    let mut output = File::from(rustix::fs::memfd_create("mount-output", MemfdFlags::CLOEXEC).map_err(|errno| start(errno.into()))?);
    let (stdout, stderr) = (output.try_clone().map_err(start)?, output.try_clone().map_err(start)?);
    let words = plan.command(&plan.options);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env("PATH", host_helper::PROGRAMS.join(":")).env(FROM_US, "1");
    let child = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0).spawn().map_err(start)?;
    let ended = wait(child, Instant::now() + plan.timeout).map_err(start)?;
    match ended {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(Error::HostMount { code: status.code(), why: plan.why.clone(), said: said(&mut output) }),
        None => Err(Error::Deadline { seconds: plan.timeout.as_secs(), waiting_for: Awaited::HostMount, said: said(&mut output) }),
    }
}

/// `None`: killed at the deadline, with its whole process group.
fn wait(mut child: Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    let ended = shorefast_sys::deadline::exit_of(&mut child, deadline)?;
    if ended.is_none() {
        let _ = rustix::process::kill_process_group(Pid::from_child(&child), Signal::KILL);
        // In an uninterruptible system call its death may be delayed; do not wait for it.
        child.try_wait()?;
    }
    Ok(ended)
}

fn said(output: &mut File) -> Diagnostics {
    const LIMIT: u64 = 16 << 10;
    let mut bytes = Vec::new();
    let _ = output.rewind().and_then(|()| output.take(LIMIT).read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().map(|line| line.chars().filter(|character| !character.is_control()).collect());
    Diagnostics { helper: lines.filter(|line: &String| !line.trim().is_empty()).collect(), refused: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(fstype: Option<&str>, options: &str) -> HostPlan {
        let request = Request {
            fstype: fstype.map(str::to_owned),
            options: options.into(),
            timeout: Duration::from_secs(1),
            ..Request::new("-server:/x", "/mnt")
        };
        HostPlan::make(&request, "a test".into())
    }

    #[test]
    fn mount_gets_all_that_the_caller_said_and_takes_no_source_for_an_option() {
        let rows: [(Option<&str>, &str, &[&str]); 3] = [
            (Some("nosuch"), "ro,x-y,_netdev", &["mount", "-t", "nosuch", "-o", "ro,x-y,_netdev", "--", "-server:/x", "/mnt"]),
            (Some("nosuch"), "", &["mount", "-t", "nosuch", "--", "-server:/x", "/mnt"]),
            (None, "", &["mount", "--", "-server:/x", "/mnt"]),
        ];
        for (fstype, options, words) in rows {
            let plan = plan(fstype, options);
            assert_eq!(plan.command(&plan.options), words);
        }
    }

    #[test]
    fn a_plan_shows_no_password() {
        let shown = plan(Some("nosuch"), "user=me,password=hunter2,ro").to_json().to_string();
        assert!(!shown.contains("hunter2") && shown.contains("user=me") && shown.contains("ro"), "{shown}");
    }
}
