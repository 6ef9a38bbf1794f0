//! Counting: reads what test runners print, line by line, and adds up how many tests passed and failed.

use std::fmt;
use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
}

impl Tally {
    /// The closing line of cargo-nextest or of a test program run by itself; all other lines count nothing.
    pub(crate) fn of_line(line: &str) -> Self {
        let line = without_colours(line);
        let counts = if let Some(counts) = line.trim_start().strip_prefix("test result: ") {
            counts.split_once(". ").map(|(_, counts)| counts)
        } else if line.trim_start().starts_with("Summary [") {
            line.split_once(" run: ").map(|(_, counts)| counts)
        } else {
            None
        };
        let mut tally = Self::default();
        for count in counts.unwrap_or_default().split([',', ';']) {
            match count.trim().split_once(' ') {
                Some((number, kind)) if kind.starts_with("passed") => tally.passed += number.parse().unwrap_or(0),
                Some((number, kind)) if kind.starts_with("failed") || kind.starts_with("timed out") => {
                    tally.failed += number.parse().unwrap_or(0);
                }
                _ => {}
            }
        }
        tally
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} passed, {} failed", self.passed, self.failed)
    }
}

fn without_colours(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_closing_lines_of_both_runners() {
        let rows = [
            ("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s", 3, 0),
            ("test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s", 2, 4),
            ("     Summary [   4.501s] 12 tests run: 12 passed, 0 skipped", 12, 0),
            ("     Summary [   4.501s] 13 tests run: 9 passed (1 slow), 3 failed, 1 timed out, 0 skipped", 9, 4),
            ("\x1b[32;1m     Summary\x1b[0m [   1.2s] \x1b[1m2\x1b[0m tests run: \x1b[1m2\x1b[0m \x1b[32;1mpassed\x1b[0m", 2, 0),
            ("some test printed: 7 failed", 0, 0),
        ];
        for (line, passed, failed) in rows {
            assert_eq!(Tally::of_line(line), Tally { passed, failed }, "{line}");
        }
    }
}
