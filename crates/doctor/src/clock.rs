//! Whether the clock can be right. A machine without a battery for it starts in 1970 or when its firmware was built: then signatures and
//! certificates are from the future, and no image can be fetched.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::finding::Finding;

/// This program is not older than that: 2026-01-01.
const BUILT_AFTER: Duration = Duration::from_secs(1_767_225_600);

/// `None`: nothing to report.
pub fn check() -> Option<Finding> {
    judge(SystemTime::now())
}

fn judge(now: SystemTime) -> Option<Finding> {
    let is_impossible = now < UNIX_EPOCH + BUILT_AFTER;
    let finding =
        "the clock is wrong: it shows a time before this program was made. Images that are here can be used, others cannot be verified";
    is_impossible.then(|| Finding::warning("clock", finding, "set it: date -s …, or start a time service"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_impossible_time_is_reported() {
        assert!(judge(UNIX_EPOCH).is_some());
        assert!(judge(UNIX_EPOCH + BUILT_AFTER).is_none());
    }
}
