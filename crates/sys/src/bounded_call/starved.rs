//! Tells a child that waits for a processor from one that waits in its call. A child past its deadline in, whether it
//! has ended after all out.
//!
//! On a machine with more to do than it can, a child may not even have run by its deadline. That says nothing about the
//! filesystem that it was to ask, and whoever took it for a dead server would give up a mount that is well.

use std::time::{Duration, Instant};

use crate::process::Child;
use crate::process_scan;

/// How far apart two looks are that have to agree. Longer than a busy machine's processors take to serve everybody once:
/// a lock may be held by a process that waits for its turn, too.
const BETWEEN: Duration = Duration::from_millis(100);
/// The same for a child that is known to have made no progress for longer than that.
const BETWEEN_SHORT: Duration = Duration::from_millis(10);
/// The wait for a processor has a deadline, too.
const LONGEST: Duration = Duration::from_secs(30);

/// Waits for a child past its deadline as long as that gets no processor, or runs. False as soon as it is blocked.
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

/// Whether a child waits for something else than a processor, and does so for a while. For callers that have waited before.
pub(crate) fn is_blocked(child: &Child) -> bool {
    let before = look(child);
    !child.ends_by(Instant::now() + BETWEEN_SHORT) && look(child).is_none_or(|now| !now.is_runnable && Some(now) == before)
}

#[derive(Debug, PartialEq, Eq)]
struct Look {
    /// Running, or waiting for a processor.
    is_runnable: bool,
    /// The kernel's counts of how often it gave the processor away: unchanged means that it has not run since.
    switches: Vec<String>,
}

/// `None`: /proc does not say.
fn look(child: &Child) -> Option<Look> {
    let status = std::fs::read_to_string(process_scan::directory(child.pid).join("status")).ok()?;
    let state = status.lines().find_map(|line| line.strip_prefix("State:"))?;
    let switches = status.lines().filter(|line| line.contains("ctxt_switches:")).map(str::to_owned).collect();
    Some(Look { is_runnable: state.trim_start().starts_with('R'), switches })
}
