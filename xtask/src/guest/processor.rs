//! One processor for each guest. A user-mode kernel and its processes never run at the same time, but take turns with every system call
//! and page fault: on two processors each turn wakes one of them up, which takes ten times as long as the turn.

use std::sync::Mutex;

use rustix::thread::CpuSet;

/// Those that guests of ours have, each as often as it was given.
static TAKEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Dropped: free for another guest.
#[derive(Debug)]
pub(super) struct Processor(usize);

impl Processor {
    /// Of the processors that we may use, one that the fewest guests have. `None`: the processors are not known.
    pub(super) fn take() -> Option<Self> {
        let allowed = rustix::thread::sched_getaffinity(None).ok()?;
        let mut taken = TAKEN.lock().expect("no thread panics with this");
        let number = least_taken(&allowed, &taken)?;
        taken.push(number);
        Some(Self(number))
    }

    pub(super) fn number(&self) -> usize {
        self.0
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock().expect("no thread panics with this");
        if let Some(place) = taken.iter().position(|number| *number == self.0) {
            taken.swap_remove(place);
        }
    }
}

fn least_taken(allowed: &CpuSet, taken: &[usize]) -> Option<usize> {
    let guests = |processor: &usize| taken.iter().filter(|number| *number == processor).count();
    (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).min_by_key(guests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_spread_over_the_processors_that_we_may_use() {
        let mut allowed = CpuSet::new();
        assert_eq!(least_taken(&allowed, &[]), None);
        allowed.set(1);
        allowed.set(3);
        let rows: [(&[usize], usize); 4] = [(&[], 1), (&[1], 3), (&[1, 3], 1), (&[3, 1, 1], 3)];
        for (taken, expected) in rows {
            assert_eq!(least_taken(&allowed, taken), Some(expected), "{taken:?}");
        }
    }
}
