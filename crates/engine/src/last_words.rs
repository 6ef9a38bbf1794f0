//! In: a client's log. Out: its last lines, for an error message or a record.

use std::path::Path;

use shorefast_sandbox::spec::TARGET;
use shorefast_sys::ring::Log;

const LINES: usize = 10;
const WIDTH: usize = 300;

/// `target`: what the caller calls the place that the client knows by another name.
pub fn of(log: &Log, target: &Path) -> Vec<String> {
    let text = String::from_utf8_lossy(&log.kept);
    let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let target = target.to_string_lossy();
    let shown = |line: &&str| line.replace(TARGET, &target).chars().take(WIDTH).collect();
    lines[lines.len().saturating_sub(LINES)..].iter().map(shown).collect()
}

/// Fewer and shorter ones, for a record, which is read and written often.
const LINES_OF_CRASH: usize = 5;
const WIDTH_OF_CRASH: usize = 200;

pub fn of_crash(log: &Log, target: &Path) -> Vec<String> {
    let lines = of(log, target);
    let last = lines.into_iter().rev().take(LINES_OF_CRASH).collect::<Vec<_>>().into_iter().rev();
    last.map(|line| line.chars().take(WIDTH_OF_CRASH).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ten_lines_as_the_caller_knows_the_place() {
        let text: String = (0..12).map(|n| format!("line {n}\n\n")).chain([format!("busy: {TARGET}/x\n")]).collect();
        let log = Log { written: text.len() as u64, kept: text.into_bytes(), ended: None };
        let lines = of(&log, Path::new("/mnt"));
        assert_eq!((lines.len(), lines[0].as_str(), lines[9].as_str()), (10, "line 3", "busy: /mnt/x"));
        assert_eq!(of_crash(&log, Path::new("/mnt")), ["line 8", "line 9", "line 10", "line 11", "busy: /mnt/x"]);
    }

    #[test]
    fn a_crash_keeps_little_of_what_was_said() {
        let text = "ä".repeat(1000);
        let log = Log { written: text.len() as u64, kept: text.into_bytes(), ended: None };
        assert_eq!(of_crash(&log, Path::new("/mnt")).concat().chars().count(), 200);
    }
}
