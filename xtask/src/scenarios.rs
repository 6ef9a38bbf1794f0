//! What became of each scenario, read from what test programs print, and the table of it.

use std::collections::BTreeMap;

/// Precedes the name of the program whose tests follow.
pub(crate) const PROGRAM: &str = "program: ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// Nothing more was heard of it.
    Unfinished,
}

/// By program and name.
#[derive(Debug, Default)]
pub(crate) struct Scenarios {
    program: String,
    outcomes: BTreeMap<String, Outcome>,
    running: Option<String>,
}

impl Scenarios {
    /// A test program says `test NAME ... ok`; what a test itself prints may come between.
    pub(crate) fn read(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(program) = line.strip_prefix(PROGRAM) {
            program.clone_into(&mut self.program);
            self.running = None;
            return;
        }
        let rest = match line.strip_prefix("test ").and_then(|line| line.split_once(" ...")) {
            Some((name, rest)) => {
                let name = format!("{}: {}", self.program, name.replace('_', " "));
                self.outcomes.insert(name.clone(), Outcome::Unfinished);
                self.running = Some(name);
                rest.trim_start()
            }
            None => line,
        };
        let outcome = match rest {
            "ok" => Outcome::Passed,
            "FAILED" => Outcome::Failed,
            _ => return,
        };
        if let Some(name) = self.running.take() {
            self.outcomes.insert(name, outcome);
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
    fn what_is_no_outcome_changes_nothing() {
        assert!(read("ok\nFAILED\ntest result: ok. 3 passed").outcomes.is_empty());
    }
}
