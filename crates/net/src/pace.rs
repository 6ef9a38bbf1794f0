//! A server that sends one byte a minute never stalls, and never ends: below a minimum rate counts as stalled.

use std::time::{Duration, Instant};

/// What has to arrive within one stall deadline. 1 kB in 30 s is slower than any modem.
const FLOOR: u64 = 1024;

#[derive(Debug)]
pub(crate) struct Pace {
    window: Duration,
    since: Instant,
    came: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    TooSlow,
}

impl Pace {
    pub(crate) fn new(window: Duration, now: Instant) -> Self {
        Self { window, since: now, came: 0 }
    }

    pub(crate) fn judge(&mut self, bytes: usize, now: Instant) -> Verdict {
        self.came += bytes as u64;
        if now.duration_since(self.since) < self.window {
            return Verdict::Fine;
        }
        let verdict = if self.came < FLOOR { Verdict::TooSlow } else { Verdict::Fine };
        (self.since, self.came) = (now, 0);
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trickle_is_a_stall() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut pace = Pace::new(10 * second, start);
        for n in 1..10 {
            assert_eq!(pace.judge(1, start + n * second), Verdict::Fine);
        }
        assert_eq!(pace.judge(1, start + 10 * second), Verdict::TooSlow);
        let mut pace = Pace::new(10 * second, start);
        assert_eq!(pace.judge(2000, start + second), Verdict::Fine);
        assert_eq!(pace.judge(1, start + 11 * second), Verdict::Fine);
        assert_eq!(pace.judge(1, start + 22 * second), Verdict::TooSlow, "what came in an earlier window does not count");
    }
}
