//! How long to wait before a retry.

use std::time::Duration;

/// The longest pause, even if the server asks for a longer one.
const LONGEST: Duration = Duration::from_secs(30);

/// The pause after `round` (from 0) has failed: doubles, with a jitter of up to a half so that a thousand nodes that lost the same server
/// do not come back in the same instant. `spread` is from 0 to 1.
pub(crate) fn pause(round: u32, first: Duration, asked_for: Option<Duration>, spread: f64) -> Duration {
    let doubled = first.saturating_mul(1 << round.min(16));
    let spread = doubled.min(LONGEST).mul_f64(1.0 + spread.clamp(0.0, 1.0) / 2.0);
    spread.max(asked_for.unwrap_or_default()).min(LONGEST)
}

/// A random number from 0 to 1.
pub(crate) fn any_spread() -> f64 {
    let mut bytes = [0u8; 2];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
    f64::from(u16::from_le_bytes(bytes)) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_are_spread_and_end() {
        let first = Duration::from_millis(400);
        let of = |round, asked, spread| pause(round, first, asked, spread);
        assert_eq!(of(0, None, 0.0), Duration::from_millis(400));
        assert_eq!(of(0, None, 1.0), Duration::from_millis(600));
        assert_eq!(of(2, None, 0.0), Duration::from_millis(1600));
        assert_eq!(of(40, None, 1.0), LONGEST);
        assert_eq!(of(0, Some(Duration::from_secs(7)), 0.5), Duration::from_secs(7));
        assert_eq!(of(0, Some(Duration::from_secs(86_400)), 0.5), LONGEST);
        assert_eq!(of(1, Some(Duration::ZERO), 0.0), Duration::from_millis(800));
    }

    #[test]
    fn a_spread_is_from_zero_to_one() {
        assert!((0..100).map(|_| any_spread()).all(|spread| (0.0..=1.0).contains(&spread)));
    }
}
