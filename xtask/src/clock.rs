//! How long we have been at it. A run that is cut short shows with every line where its time went.

use std::sync::LazyLock;
use std::time::Instant;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// To be called first of all.
pub(crate) fn start() {
    LazyLock::force(&START);
}

/// Minutes and seconds, such as `12:05`.
pub(crate) fn since_start() -> String {
    let seconds = START.elapsed().as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
