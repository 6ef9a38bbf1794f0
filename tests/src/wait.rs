//! Waiting for something to become true, never longer than a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// Long enough for a guest kernel on a busy machine; only failing tests ever wait that long.
pub const PATIENCE: Duration = Duration::from_secs(100);

const PAUSE: Duration = Duration::from_millis(10);

/// Asks until there is an answer. `what` completes the sentence "gave up waiting for …".
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, &mut ask).unwrap_or_else(|| panic!("gave up waiting for {what}"))
}

pub fn within<T>(time: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + time;
    loop {
        let answer = ask();
        if answer.is_some() || Instant::now() >= deadline {
            return answer;
        }
        thread::sleep(PAUSE);
    }
}
