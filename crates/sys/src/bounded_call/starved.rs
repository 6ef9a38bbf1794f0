//! Tells a child that waits for a processor from one that waits in its call. In: a child past its deadline.
//! Out: whether it has ended after all.
//!
//! On an overloaded machine, a child may not even have run by its deadline. That says nothing about the filesystem that it
//! was to call. A caller that took this for a dead server would give up a healthy mount.

use std::time::{Duration, Instant};

use crate::process::Child;
use crate::process_scan;

/// The interval between two checks that have to agree. Longer than a busy machine's scheduler takes to run every process
/// once: the child may wait for a lock whose holder waits for a processor, too.
const BETWEEN: Duration = Duration::from_millis(100);
/// The same for a child that is known to have made no progress for longer than that.
const BETWEEN_SHORT: Duration = Duration::from_millis(10);
/// The wait for a processor has a deadline, too.
const LONGEST: Duration = Duration::from_secs(30);

/// Waits for a child past its deadline as long as it is runnable or running. False as soon as it is blocked.
pub(crate) fn ends_once_it_runs(child: &Child) -> bool {
    let end = Instant::now() + LONGEST;
    let mut before = look(child);
    while before.is_some() && Instant::now() < end {
        if child.ends_by(Instant::now() + BETWEEN) {
            return true;
        }
        let now = look(child);
        if now.as_ref().is_some_and(|now| !now.is_runnable) && now == before {
            return false;
        }
        before = now;
    }
    child.ends_by(Instant::now())
}

/// Whether a child has been waiting for a while, and not for a processor. For callers that have waited before.
pub(crate) fn is_blocked(child: &Child) -> bool {
    let before = look(child);
    !child.ends_by(Instant::now() + BETWEEN_SHORT) && look(child).is_none_or(|now| !now.is_runnable && Some(now) == before)
}

#[derive(Debug, PartialEq, Eq)]
struct Look {
    /// Running, or waiting for a processor.
    is_runnable: bool,
    /// The kernel's counts of its context switches: unchanged means that it has not run since.
    switches: Vec<String>,
}

/// `None`: /proc does not say.
fn look(child: &Child) -> Option<Look> {
    let status = std::fs::read_to_string(process_scan::directory(child.pid).join("status")).ok()?;
    let state = status.lines().find_map(|line| line.strip_prefix("State:"))?;
    let switches = status.lines().filter(|line| line.contains("ctxt_switches:")).map(str::to_owned).collect();
    Some(Look { is_runnable: state.trim_start().starts_with('R'), switches })
}
