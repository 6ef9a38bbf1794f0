//! The process above one that starts servers and containers: when that ends, however it ends, the warden ends every process that it
//! left. With the last process go the mounts.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper};
use shorefast_sys::namespace;
use shorefast_tests::wait;

/// Runs it to its end. Daemons become our children when their parents end, wherever they are.
pub(crate) fn watch(mut command: Command) -> Result<ExitCode> {
    set_child_subreaper(Some(getpid())).context("cannot become the reaper")?;
    let watched = command.spawn().context("cannot start ourselves")?;
    reap_until_the_end_of(Pid::from_child(&watched))
}

/// The same as pid 1 of its own, in the namespaces that the watched process makes for itself: a program that enters the host's
/// namespaces finds those.
pub(crate) fn watch_as_init(mut command: Command) -> Result<ExitCode> {
    let watched = command.spawn().context("cannot start ourselves")?;
    let watched = Pid::from_child(&watched);
    let number = |namespace: &OwnedFd| rustix::fs::fstat(namespace).ok().map(|status| status.st_ino);
    let own = number(&namespace::own("mnt").context("cannot see our own namespace")?);
    let moved = || namespace::of(watched, "mnt").ok().filter(|theirs| number(theirs) != own);
    // `None`: it has ended, which is seen below. It makes both namespaces in one call.
    if let Some(mounts) = wait::within(TO_MOVE, moved) {
        let network = namespace::of(watched, "net").context("cannot find the network")?;
        namespace::join(network.as_fd()).and_then(|()| namespace::join(mounts.as_fd())).context("cannot join the namespaces")?;
    }
    reap_until_the_end_of(watched)
}

/// It does that first of all.
const TO_MOVE: Duration = Duration::from_secs(30);

fn reap_until_the_end_of(watched: Pid) -> Result<ExitCode> {
    let status = loop {
        match reap()? {
            Some((pid, status)) if pid == watched => break status,
            _ => {}
        }
    };
    end_children()?;
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
    match rustix::io::retry_on_intr(|| rustix::process::wait(WaitOptions::empty())) {
        Err(Errno::CHILD) => Ok(None),
        ended => ended.context("cannot wait for processes"),
    }
}
