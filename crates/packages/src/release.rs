//! In: an archive's Release file. Out: its list of files, and its period of validity.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use crate::control;

/// How far a mirror's clock may be ahead of ours.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Debug)]
pub struct Release {
    pub origin: String,
    pub suite: String,
    pub codename: String,
    pub date: SystemTime,
    pub valid_until: Option<SystemTime>,
    pub by_hash: bool,
    files: HashMap<String, Listed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub sha256: String,
    pub size: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("it has no readable {0}")]
    Lacks(&'static str),
    #[error("it is of suite {found}, not {wanted}")]
    OtherSuite { wanted: String, found: String },
    #[error("it expired at {0}")]
    Expired(String),
    #[error("it was made at {0}, which is in the future")]
    FromTheFuture(String),
    #[error("it was made at {found}, but one made at {seen} was seen before")]
    RolledBack { found: String, seen: String },
}

impl Release {
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let paragraph = control::paragraphs(text).next().ok_or(Problem::Lacks("content"))?;
        let text_of = |name| paragraph.get(name).unwrap_or_default().to_owned();
        let valid_until = match paragraph.get("Valid-Until") {
            Some(date) => Some(parse_date(date).ok_or(Problem::Lacks("Valid-Until"))?),
            None => None,
        };
        Ok(Self {
            origin: text_of("Origin"),
            suite: text_of("Suite"),
            codename: text_of("Codename"),
            date: paragraph.get("Date").and_then(parse_date).ok_or(Problem::Lacks("Date"))?,
            valid_until,
            by_hash: paragraph.get("Acquire-By-Hash").is_some_and(|value| value.eq_ignore_ascii_case("yes")),
            files: paragraph.get("SHA256").ok_or(Problem::Lacks("SHA256 sums"))?.lines().filter_map(parse_file).collect(),
        })
    }

    pub fn file(&self, path: &str) -> Option<&Listed> {
        self.files.get(path)
    }

    /// `seen`: the date of the newest Release of this archive ever seen here.
    pub fn check(&self, wanted: &str, seen: Option<SystemTime>, now: SystemTime) -> Result<(), Problem> {
        if ![self.suite.as_str(), self.codename.as_str()].contains(&wanted) {
            let found = if self.codename.is_empty() { &self.suite } else { &self.codename };
            return Err(Problem::OtherSuite { wanted: wanted.to_owned(), found: found.clone() });
        }
        if self.date > now + CLOCK_DIFFERENCE {
            return Err(Problem::FromTheFuture(show(self.date)));
        }
        if let Some(end) = self.valid_until.filter(|end| *end < now) {
            return Err(Problem::Expired(show(end)));
        }
        match seen.filter(|seen| self.date < *seen) {
            Some(seen) => Err(Problem::RolledBack { found: show(self.date), seen: show(seen) }),
            None => Ok(()),
        }
    }
}

fn show(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

fn parse_file(line: &str) -> Option<(String, Listed)> {
    let mut words = line.split_whitespace();
    let (sha256, size, path) = (words.next()?, words.next()?, words.next()?);
    is_sha256(sha256).then_some(())?;
    Some((path.to_owned(), Listed { sha256: sha256.to_owned(), size: size.parse().ok()? }))
}

pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// `Sat, 11 Jul 2026 10:16:37 UTC`
fn parse_date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<_> = text.split_whitespace().collect();
    let [_, day, month, year, time, zone] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    matches!(zone, "UTC" | "GMT" | "Z" | "+0000").then_some(())?;
    let time = if time.len() == 7 { format!("0{time}") } else { time.to_owned() };
    humantime::parse_rfc3339(&format!("{year}-{month:02}-{day:0>2}T{time}Z")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn release(more: &str) -> Result<Release, Problem> {
        Release::parse(&format!("Suite: stable\nCodename: x\nDate: Sat, 11 Jul 2026 10:16:37 UTC\n{more}SHA256:\n {SUM} 7 main/Packages\n"))
    }

    fn at(text: &str) -> SystemTime {
        humantime::parse_rfc3339(text).unwrap()
    }

    #[test]
    fn reads_files_and_dates() {
        let release = release("Valid-Until: Sun, 2 Aug 2026 1:02:03 UTC\n").unwrap();
        assert_eq!(release.file("main/Packages"), Some(&Listed { sha256: SUM.to_owned(), size: 7 }));
        assert_eq!(release.date, at("2026-07-11T10:16:37Z"));
        assert_eq!(release.valid_until, Some(at("2026-08-02T01:02:03Z")));
        assert!(!release.by_hash);
    }

    #[test]
    fn an_unreadable_end_is_not_no_end() {
        assert_eq!(release("Valid-Until: tomorrow\n").unwrap_err(), Problem::Lacks("Valid-Until"));
    }

    #[test]
    fn is_believed_in_its_time_and_never_again_after_a_newer_one() {
        let release = release("Valid-Until: Sun, 02 Aug 2026 00:00:00 UTC\n").unwrap();
        let table = [
            ("stable", None, "2026-07-12T00:00:00Z", true),
            ("x", Some("2026-07-11T10:16:37Z"), "2026-07-12T00:00:00Z", true),
            ("testing", None, "2026-07-12T00:00:00Z", false),
            ("x", None, "2026-08-03T00:00:00Z", false),
            ("x", None, "2026-07-09T00:00:00Z", false),
            ("x", Some("2026-07-11T10:16:38Z"), "2026-07-12T00:00:00Z", false),
        ];
        for (suite, seen, now, believed) in table {
            assert_eq!(release.check(suite, seen.map(at), at(now)).is_ok(), believed, "{suite} {seen:?} {now}");
        }
    }
}
