//! Numbers become text: Markdown for people, JSON for programs.

use anyhow::Result;
use serde_json::json;

use super::machine::Machine;
use super::numbers::{Goal, Interval, Limit, Measured, NATIVE, Series, Unit, Verdict, ratio};

pub(super) fn heading(machine: &Machine) -> String {
    let Machine { command, kernel, processors, memory, date, load, binary } = machine;
    format!("# `{command}`\n\n{date}; Linux {kernel}; {processors}; {memory} of memory; load {load} at the start; {binary}\n")
}

pub(super) fn section(measured: &Measured) -> String {
    let unit = match measured.unit {
        Unit::Milliseconds => "ms",
        Unit::Microseconds => "µs",
        Unit::Kilobytes => "kB",
    };
    let mut text = format!("## {}\n\n{}\n\n", measured.title, measured.note);
    text += &format!("| what | way | n | p50 {unit} | p99 {unit} | min {unit} | p50 ÷ native |\n|---|---|--:|--:|--:|--:|--:|\n");
    text.extend(measured.series.iter().map(|series| row(series, &measured.series)));
    if !measured.goals.is_empty() {
        text += "\n| goal | limit | reached | |\n|---|--:|--:|---|\n";
        text.extend(measured.goals.iter().map(goal_row));
    }
    text
}

fn row(series: &Series, all: &[Series]) -> String {
    let ratio = ratio(all, &series.what, &series.way, NATIVE);
    let ratio = if ratio.is_nan() { "–".to_owned() } else { format!("{ratio:.2}") };
    let Series { what, way, values } = series;
    let [p50, p99, min] = [series.p50(), series.percentile(99), series.min()].map(|value| format!("{value:.2}"));
    format!("| {what} | {way} | {} | {p50} | {p99} | {min} | {ratio} |\n", values.len())
}

fn goal_row(goal: &Goal) -> String {
    let number = |value: f64| match goal.unit.as_str() {
        "" => format!("{value}"),
        unit => format!("{value:.2} {unit}"),
    };
    let within = |Interval { low, high }| format!("{} ({low:.2}–{high:.2})", number(goal.reached));
    let (limit, reached) = match goal.limit {
        Limit::AtMost(limit) => (format!("≤ {}", number(limit)), number(goal.reached)),
        Limit::AtLeast(limit) => (format!("≥ {}", number(limit)), number(goal.reached)),
        Limit::OneWithinNoise(noise) => ("1.00 × within noise".to_owned(), within(noise)),
        Limit::None(noise) => ("–".to_owned(), noise.map_or_else(|| number(goal.reached), within)),
    };
    let verdict = match goal.verdict() {
        Verdict::Met => "met",
        Verdict::NotMet => "**NOT met**",
        Verdict::Unknown => "too noisy to tell",
        Verdict::NoGoal => "for comparison",
    };
    format!("| {} | {limit} | {reached} | {verdict} |\n", goal.what)
}

pub(super) fn json(machine: &Machine, measured: &[Measured]) -> Result<String> {
    Ok(serde_json::to_string_pretty(&json!({ "machine": machine, "parts": measured }))? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_shows_ratios_and_verdicts() {
        let series = |way: &str, values: &[f64]| Series { what: "bindfs".to_owned(), way: way.to_owned(), values: values.to_vec() };
        let goal = |reached, limit, unit: &str| Goal { what: "g".to_owned(), reached, limit, unit: unit.to_owned() };
        let measured = Measured {
            title: "Overhead".to_owned(),
            note: "A note.".to_owned(),
            unit: Unit::Milliseconds,
            series: vec![series(NATIVE, &[1.0, 2.0, 3.0]), series("runc", &[20.0])],
            goals: vec![
                goal(2.5, Limit::AtMost(2.0), "×"),
                goal(100.0, Limit::AtLeast(100.0), ""),
                goal(1.01, Limit::OneWithinNoise(Interval { low: 0.99, high: 1.03 }), "×"),
                goal(1.5, Limit::None(None), "×"),
                goal(1.5, Limit::None(Some(Interval { low: 1.2, high: 1.6 })), "×"),
            ],
        };
        let text = section(&measured);
        for line in [
            "| bindfs | native | 3 | 2.00 | 3.00 | 1.00 | 1.00 |",
            "| bindfs | runc | 1 | 20.00 | 20.00 | 20.00 | 10.00 |",
            "| g | ≤ 2.00 × | 2.50 × | **NOT met** |",
            "| g | ≥ 100 | 100 | met |",
            "| g | 1.00 × within noise | 1.01 × (0.99–1.03) | met |",
            "| g | – | 1.50 × | for comparison |",
            "| g | – | 1.50 × (1.20–1.60) | for comparison |",
        ] {
            assert!(text.lines().any(|own| own == line), "no `{line}` in:\n{text}");
        }
    }
}
