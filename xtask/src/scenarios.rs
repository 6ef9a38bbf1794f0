//! What became of each scenario, read from what test programs print, and the table of it.

use std::collections::BTreeMap;
use std::fmt;

/// Precedes the name of the program whose tests follow.
pub(crate) const PROGRAM: &str = "program: ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// The second time.
    PassedAgain,
    Failed,
    /// Nothing more was heard of it.
    Unfinished,
}

/// A test, and the program that it is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scenario {
    pub(crate) program: String,
    pub(crate) test: String,
}

impl fmt::Display for Scenario {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.program, self.test.replace('_', " "))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Scenarios {
    program: String,
    outcomes: BTreeMap<Scenario, Outcome>,
    running: Option<Scenario>,
    /// Begun, and their closing line not heard: still running, crashed or ended from outside.
    without_result: Vec<String>,
}

impl Scenarios {
    /// The one that was heard last.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    /// A test program says `test NAME ... ok`; what a test itself prints may come between.
    pub(crate) fn read(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(program) = line.strip_prefix(PROGRAM) {
            program.clone_into(&mut self.program);
            self.running = None;
            self.without_result.push(program.to_owned());
            return;
        }
        if line.starts_with("test result: ") {
            self.without_result.retain(|program| *program != self.program);
            return;
        }
        let rest = match line.strip_prefix("test ").and_then(|line| line.split_once(" ...")) {
            Some((name, rest)) => {
                let scenario = Scenario { program: self.program.clone(), test: name.to_owned() };
                self.outcomes.insert(scenario.clone(), Outcome::Unfinished);
                self.running = Some(scenario);
                rest.trim_start()
            }
            None => line,
        };
        let outcome = match rest {
            "ok" => Outcome::Passed,
            "FAILED" => Outcome::Failed,
            _ => return,
        };
        if let Some(scenario) = self.running.take() {
            self.outcomes.insert(scenario, outcome);
        }
    }

    /// Programs that began and said no result, if there are any.
    pub(crate) fn without_result(&self) -> Option<String> {
        Some(self.without_result.join(", ")).filter(|programs| !programs.is_empty())
    }

    pub(crate) fn failed(&self) -> impl Iterator<Item = &Scenario> {
        self.outcomes.iter().filter(|(_, outcome)| **outcome == Outcome::Failed).map(|(scenario, _)| scenario)
    }

    /// After what had failed was run once more.
    pub(crate) fn correct_by(&mut self, second: &Self) {
        for (scenario, outcome) in &mut self.outcomes {
            if *outcome == Outcome::Failed && second.outcomes.get(scenario) == Some(&Outcome::Passed) {
                *outcome = Outcome::PassedAgain;
            }
        }
    }
}

/// In Markdown. A scenario that a kernel did not get to see has a dash there.
pub(crate) fn table(columns: &[(&str, &Scenarios)]) -> String {
    let mut names: Vec<_> = columns.iter().flat_map(|(_, scenarios)| scenarios.outcomes.keys()).collect();
    names.sort();
    names.dedup();
    let versions: Vec<_> = columns.iter().map(|(version, _)| *version).collect();
    let mut text = format!("| scenario | {} |\n|---|{}\n", versions.join(" | "), "---|".repeat(versions.len()));
    for name in names {
        let outcomes: Vec<_> = columns.iter().map(|(_, scenarios)| shown(scenarios.outcomes.get(name))).collect();
        text.push_str(&format!("| {name} | {} |\n", outcomes.join(" | ")));
    }
    text
}

fn shown(outcome: Option<&Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Passed) => "ok",
        Some(Outcome::PassedAgain) => "ok, the second time",
        Some(Outcome::Failed) => "FAILED",
        Some(Outcome::Unfinished) => "unfinished",
        None => "-",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> Scenarios {
        let mut scenarios = Scenarios::default();
        lines.lines().for_each(|line| scenarios.read(line));
        scenarios
    }

    #[test]
    fn a_row_per_scenario_and_a_column_per_kernel() {
        let one = read("program: nfs\nrunning 2 tests\ntest a_b ... ok\ntest c::d ... FAILED\n");
        let other = read("program: nfs\ntest a_b ... noise\nok\ntest late ... \n");
        let table = table(&[("6.1", &one), ("7.2", &other)]);
        for row in ["| scenario | 6.1 | 7.2 |", "| nfs: a b | ok | ok |", "| nfs: c::d | FAILED | - |", "| nfs: late | - | unfinished |"] {
            assert!(table.contains(row), "{row} is not in\n{table}");
        }
    }

    #[test]
    fn what_failed_once_is_shown_as_such() {
        let mut first = read("program: nfs\ntest a ... FAILED\ntest b ... FAILED\ntest c ... ok\n");
        assert_eq!(first.failed().map(|scenario| scenario.test.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        first.correct_by(&read("program: nfs\ntest a ... ok\ntest b ... FAILED\n"));
        let table = table(&[("6.1", &first)]);
        for row in ["| nfs: a | ok, the second time |", "| nfs: b | FAILED |", "| nfs: c | ok |"] {
            assert!(table.contains(row), "{row} is not in\n{table}");
        }
    }

    #[test]
    fn a_program_that_crashed_is_known() {
        let text = "program: nfs\ntest a ... ok\nprogram: life\ntest b ... ok\ntest result: ok. 1 passed\n";
        assert_eq!(read(text).without_result().as_deref(), Some("nfs"));
        // Run once more: it has its result.
        assert_eq!(read(&format!("{text}program: nfs\ntest result: ok. 1 passed\n")).without_result(), None);
    }

    #[test]
    fn what_is_no_outcome_changes_nothing() {
        assert!(read("ok\nFAILED\ntest result: ok. 3 passed").outcomes.is_empty());
    }
}
