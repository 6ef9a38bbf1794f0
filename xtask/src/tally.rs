//! Counting: reads what test runners print, line by line, and adds up how many tests passed and failed.

use std::fmt;
use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    /// Of those that passed: how many did not the first time.
    pub(crate) again: u32,
}

impl Tally {
    /// The closing line of cargo-nextest; all other lines count nothing. In particular not the closing line of a test program,
    /// which it shows with the rest of a failure, also of one that passed when it was run again.
    pub(crate) fn of_runner(line: &str) -> Self {
        let line = without_colours(line);
        let is_closing = line.trim_start().starts_with("Summary [");
        line.split_once(" run: ").filter(|_| is_closing).map_or_else(Self::default, |(_, counts)| Self::of_counts(counts))
    }

    /// The closing line of a test program run by itself; all other lines count nothing.
    pub(crate) fn of_program(line: &str) -> Self {
        let result = line.strip_prefix("test result: ").and_then(|result| result.split_once(". "));
        result.map_or_else(Self::default, |(_, counts)| Self::of_counts(counts))
    }

    fn of_counts(counts: &str) -> Self {
        let mut tally = Self::default();
        for count in counts.split([',', ';', '(']) {
            match count.trim().split_once(' ') {
                Some((number, kind)) if kind.starts_with("passed") => tally.passed += number.parse().unwrap_or(0),
                Some((number, kind)) if kind.starts_with("failed") || kind.starts_with("timed out") => {
                    tally.failed += number.parse().unwrap_or(0);
                }
                Some((number, kind)) if kind.starts_with("flaky") => tally.again += number.parse().unwrap_or(0),
                _ => {}
            }
        }
        tally
    }

    /// After what had failed was run once more.
    pub(crate) fn corrected_by(self, second: Self) -> Self {
        let again = second.passed.min(self.failed);
        Self { passed: self.passed + again, failed: self.failed - again, again: self.again + again }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.again += other.again;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} passed, {} failed", self.passed, self.failed)?;
        if self.again > 0 {
            write!(out, " ({} passed only when run again)", self.again)?;
        }
        Ok(())
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
    fn reads_the_closing_line_of_the_runner() {
        let rows = [
            ("     Summary [   4.501s] 12 tests run: 12 passed, 0 skipped", 12, 0, 0),
            ("     Summary [   4.501s] 13 tests run: 9 passed (1 slow, 2 flaky), 3 failed, 1 timed out, 0 skipped", 9, 4, 2),
            ("     Summary [   4.501s] 9 tests run: 9 passed (2 flaky), 0 skipped", 9, 0, 2),
            ("\x1b[32;1m     Summary\x1b[0m [   1.2s] \x1b[1m2\x1b[0m tests run: \x1b[1m2\x1b[0m \x1b[32;1mpassed\x1b[0m", 2, 0, 0),
            ("    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 9 filtered out; finished in 13.17s", 0, 0, 0),
            ("test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 9 filtered out; finished in 13.17s", 0, 0, 0),
            ("some test printed: 7 failed", 0, 0, 0),
        ];
        for (line, passed, failed, again) in rows {
            assert_eq!(Tally::of_runner(line), Tally { passed, failed, again }, "{line}");
        }
    }

    #[test]
    fn reads_the_closing_line_of_a_program() {
        let rows = [
            ("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s", 3, 0),
            ("test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s", 2, 4),
            ("     Summary [   4.501s] 12 tests run: 12 passed, 0 skipped", 0, 0),
            ("test something ... FAILED", 0, 0),
        ];
        for (line, passed, failed) in rows {
            assert_eq!(Tally::of_program(line), Tally { passed, failed, again: 0 }, "{line}");
        }
    }

    #[test]
    fn what_passes_when_run_again_is_said() {
        let first = Tally { passed: 5, failed: 2, again: 0 };
        assert_eq!(
            first.corrected_by(Tally { passed: 1, failed: 1, again: 0 }).to_string(),
            "6 passed, 1 failed (1 passed only when run again)"
        );
        assert_eq!(first.to_string(), "5 passed, 2 failed");
    }
}
