//! In: cells. Out: a table of padded columns.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shorefast_engine::text;

pub fn table<const COLUMNS: usize>(lines: &[[String; COLUMNS]]) -> String {
    fitting(lines, None)
}

/// On a terminal of this width, only the first columns that fit: a table that wraps cannot be read.
pub fn fitting<const COLUMNS: usize>(lines: &[[String; COLUMNS]], terminal: Option<usize>) -> String {
    // No cell can begin a new line.
    let lines: Vec<_> = lines.iter().map(|line| line.each_ref().map(|cell| text::printable_line(cell))).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..COLUMNS).map(width).collect();
    let ends = widths.iter().scan(0, |end, width| {
        let at = *end + width;
        *end = at + GAP.len();
        Some(at)
    });
    let shown = terminal.map_or(COLUMNS, |terminal| ends.take_while(|end| *end <= terminal).count().max(1));
    let mut text = String::new();
    for line in &lines {
        let padded: Vec<_> = line.iter().zip(&widths).take(shown).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(padded.join(GAP).trim_end());
        text.push('\n');
    }
    text
}

const GAP: &str = "  ";

/// In words: the largest unit is enough.
pub fn ago(seconds: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    format!("{} ago", length(now.saturating_sub(seconds)))
}

pub fn length(seconds: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(24 * 60 * 60, "d"), (60 * 60, "h"), (60, "min")];
    // Two of a unit at least: 90 minutes are not an hour.
    let unit = UNITS.into_iter().find(|(unit, _)| seconds >= 2 * unit);
    unit.map_or_else(|| format!("{seconds}s"), |(unit, name)| format!("{}{name}", seconds / unit))
}

/// For programs, and where the moment matters.
pub fn at(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_the_columns_that_fit() {
        let lines = [["TARGET", "STATE", "PID"], ["/mnt", "serving", "12"]].map(|line| line.map(str::to_owned));
        let whole = "TARGET  STATE    PID\n/mnt    serving  12\n";
        assert_eq!(table(&lines), whole);
        assert_eq!(fitting(&lines, Some(20)), whole);
        assert_eq!(fitting(&lines, Some(19)), "TARGET  STATE\n/mnt    serving\n");
        assert_eq!(fitting(&lines, Some(3)), "TARGET\n/mnt\n", "what it is about is always said");
    }

    #[test]
    fn times_are_said_in_one_unit() {
        let said = [0, 12, 119, 120, 3600, 7200, 47 * 3600, 49 * 3600].map(length);
        assert_eq!(said, ["0s", "12s", "119s", "2min", "60min", "2h", "47h", "2d"]);
    }
}
