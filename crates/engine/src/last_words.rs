//! In: a client's log. Out: its last lines, for an error message.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ten_lines_as_the_caller_knows_the_place() {
        let text: String = (0..12).map(|n| format!("line {n}\n\n")).chain([format!("busy: {TARGET}/x\n")]).collect();
        let log = Log { written: text.len() as u64, kept: text.into_bytes(), ended: None };
        let lines = of(&log, Path::new("/mnt"));
        assert_eq!((lines.len(), lines[0].as_str(), lines[9].as_str()), (10, "line 3", "busy: /mnt/x"));
    }
}
