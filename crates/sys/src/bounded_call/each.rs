//! Asks one question about each of many files, any of which may block for ever. Paths in, answers out.
//!
//! A child process ([`crate::bounded_call`]) asks about one after the other, and when it hangs, another child continues with
//! the next file.

use std::ffi::{CStr, CString};
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::bounded_call::run::{Descriptors, send};
use crate::bounded_call::starved;
use crate::error::Result;

/// The answer about one of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    Known(T),
    /// It does not exist, or access is denied.
    None,
    /// The call did not return, or was not reached before the deadline.
    Hangs,
}

impl<T> Answer<T> {
    pub fn known(self) -> Option<T> {
        match self {
            Self::Known(value) => Some(value),
            Self::None | Self::Hangs => None,
        }
    }

    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Self::Known(value) => Answer::Known(change(value)),
            Self::None => Answer::None,
            Self::Hangs => Answer::Hangs,
        }
    }
}

/// Only a file that hangs takes this long.
const FOR_ONE: Duration = Duration::from_millis(200);

/// Stands for a missing answer. Inodes, times and the like never have this value.
const NO_ANSWER: u64 = u64::MAX;

/// The answers, in the order of the paths. `keep`: descriptors that `ask` uses, at most two. A file that cannot be asked
/// about, or not before the deadline, counts as hanging.
pub(crate) fn each(
    mut paths: Vec<CString>,
    keep: &[RawFd],
    deadline: Instant,
    ask: impl Fn(&CStr) -> rustix::io::Result<u64> + Copy,
) -> Vec<Answer<u64>> {
    let total = paths.len();
    let mut answers = Vec::with_capacity(total);
    while answers.len() < total && (answers.is_empty() || Instant::now() < deadline) {
        let Ok(found) = ask_until_it_hangs(paths.clone(), keep, deadline, ask) else { break };
        // Continue after the path at which it hangs.
        paths = paths.split_off((found.len() + 1).min(paths.len()));
        answers.extend(found);
        if answers.len() < total {
            answers.push(Answer::Hangs);
        }
    }
    answers.resize(total, Answer::Hangs);
    answers
}

/// The answers that a child has found so far.
struct Progress {
    count: AtomicUsize,
    answers: Vec<AtomicU64>,
}

/// The answers for the paths up to the first that hangs, or for all.
fn ask_until_it_hangs(
    paths: Vec<CString>,
    keep: &[RawFd],
    deadline: Instant,
    ask: impl Fn(&CStr) -> rustix::io::Result<u64>,
) -> Result<Vec<Answer<u64>>> {
    let answers = paths.iter().map(|_| AtomicU64::new(NO_ANSWER)).collect();
    // Leaked, both: a child that hangs may still use them, and one that ends must not free anything.
    let progress: &Progress = Box::leak(Box::new(Progress { count: AtomicUsize::new(0), answers }));
    let paths = ManuallyDrop::new(paths);
    let work = move || {
        for (path, answer) in paths.iter().zip(&progress.answers) {
            answer.store(ask(path).unwrap_or(NO_ANSWER), Ordering::Relaxed);
            // Release: a reader that sees the new count also sees the answer.
            progress.count.fetch_add(1, Ordering::Release);
        }
        Ok(())
    };
    let asking = send(Descriptors::Only(keep), work)?;
    let mut before = 0;
    loop {
        let has_ended = asking.child().ends_by(Instant::now() + FOR_ONE);
        let count = progress.count.load(Ordering::Acquire);
        if has_ended || (count == before && starved::is_blocked(asking.child())) || Instant::now() >= deadline {
            let known = progress.answers[..count].iter().map(|answer| match answer.load(Ordering::Relaxed) {
                NO_ANSWER => Answer::None,
                value => Answer::Known(value),
            });
            return Ok(known.collect());
        }
        before = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn who_hangs_is_passed_over_and_the_others_are_answered() {
        let words = [c"1", c"hang", c"3", c"none", c"hang"].map(CStr::to_owned).to_vec();
        let ask = |word: &CStr| match word.to_bytes() {
            b"hang" => loop {
                let _ = rustix::thread::nanosleep(&crate::deadline::timespec(Duration::from_secs(60)));
            },
            b"none" => Err(Errno::NOENT),
            digit => Ok(u64::from(digit[0] - b'0')),
        };
        let begun = Instant::now();
        let answers = each(words, &[], begun + Duration::from_secs(60), ask);
        assert_eq!(answers, [Answer::Known(1), Answer::Hangs, Answer::Known(3), Answer::None, Answer::Hangs]);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }

    #[test]
    fn what_there_is_no_time_for_hangs() {
        let words = vec![c"x".to_owned(); 5];
        let sleep = |_: &CStr| {
            let _ = rustix::thread::nanosleep(&crate::deadline::timespec(Duration::from_secs(60)));
            Ok(1)
        };
        let answers = each(words, &[], Instant::now() + Duration::from_millis(300), sleep);
        assert_eq!(answers, [Answer::Hangs; 5]);
    }
}
