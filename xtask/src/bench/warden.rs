//! The process above a part: when the part ends, however it ends, the warden ends every process that it left, and removes the
//! control groups of its containers. With the last process go the mounts.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait};

use super::{Part, Role, containers, enclosure};

/// Lets a part run to its end. Its daemons become our children when their parents end, wherever they are.
pub(super) fn watch(part: Part, n: usize) -> Result<ExitCode> {
    set_child_subreaper(Some(getpid())).context("cannot become the reaper")?;
    containers::remove_cgroups(); // those of a bench whose warden was killed
    let measurer = enclosure::ourselves(Role::Measurer, part, n)?.spawn().context("cannot start a measurer")?;
    let measurer = Pid::from_child(&measurer);
    let status = loop {
        match reap()? {
            Some((pid, status)) if pid == measurer => break status,
            _ => {}
        }
    };
    end_children()?;
    containers::remove_cgroups();
    Ok(if status.exit_status() == Some(0) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Children of killed children become ours, so it takes as many rounds as the tree is deep.
fn end_children() -> Result<()> {
    let own = getpid();
    let list = format!("/proc/{own}/task/{own}/children");
    loop {
        let children = fs::read_to_string(&list).with_context(|| format!("cannot read {list}"))?;
        let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw));
        for child in children {
            let _ = kill_process(child, Signal::KILL); // fails if it has just ended
        }
        if reap()?.is_none() {
            return Ok(());
        }
    }
}

/// Waits for any child to end. None: there are none.
fn reap() -> Result<Option<(Pid, WaitStatus)>> {
    match rustix::io::retry_on_intr(|| wait(WaitOptions::empty())) {
        Err(Errno::CHILD) => Ok(None),
        ended => ended.context("cannot wait for processes"),
    }
}
