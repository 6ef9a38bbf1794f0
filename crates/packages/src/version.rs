//! Debian's version order (deb-version(7)).
//!
//! By hand: the crate for it brings regular expressions, a calendar and big integers for what is two short
//! functions, and dpkg itself is at hand to test against.

use std::cmp::Ordering;

/// Which of two versions is newer.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (Parts::of(a), Parts::of(b));
    number(a.epoch, b.epoch).then_with(|| part(a.upstream, b.upstream)).then_with(|| part(a.revision, b.revision))
}

struct Parts<'a> {
    epoch: &'a [u8],
    upstream: &'a [u8],
    revision: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(version: &'a str) -> Self {
        let (epoch, rest) = version.split_once(':').unwrap_or(("", version));
        let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
        Self { epoch: epoch.as_bytes(), upstream: upstream.as_bytes(), revision: revision.as_bytes() }
    }
}

/// Compares non-digit and digit parts alternately.
fn part(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while !(a.is_empty() && b.is_empty()) {
        let (text_a, rest_a) = split(a, |byte| !byte.is_ascii_digit());
        let (text_b, rest_b) = split(b, |byte| !byte.is_ascii_digit());
        let (number_a, rest_a) = split(rest_a, |byte| byte.is_ascii_digit());
        let (number_b, rest_b) = split(rest_b, |byte| byte.is_ascii_digit());
        let order = text(text_a, text_b).then_with(|| number(number_a, number_b));
        if order.is_ne() {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
    Ordering::Equal
}

fn split(bytes: &[u8], belongs: fn(&u8) -> bool) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().position(|byte| !belongs(byte)).unwrap_or(bytes.len()))
}

/// A tilde sorts before the end, the end before letters, letters before all else.
fn text(a: &[u8], b: &[u8]) -> Ordering {
    let weight = |byte: Option<&u8>| match byte {
        Some(b'~') => -1,
        None => 0,
        Some(byte) if byte.is_ascii_alphabetic() => i32::from(*byte),
        Some(byte) => i32::from(*byte) + 256,
    };
    let longest = a.len().max(b.len());
    (0..longest).map(|at| weight(a.get(at)).cmp(&weight(b.get(at)))).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Numbers of any length.
fn number(a: &[u8], b: &[u8]) -> Ordering {
    let (_, a) = split(a, |byte| *byte == b'0');
    let (_, b) = split(b, |byte| *byte == b'0');
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn agrees_with_dpkg() {
        let versions = [
            "0",
            "1",
            "1.0",
            "1.0~rc1",
            "1.0~~",
            "1.0-1",
            "1.0-1~deb12u1",
            "1.0-1+b1",
            "1:0.1",
            "0:1.0",
            "1.0a",
            "1.0+dfsg",
            "1.0.10",
            "1.0.9",
            "2.36-9+deb12u14",
            "2.36-9+deb12u2",
            "20230311+deb12u1",
            "1.0-1.1",
            "1.0-01",
            "10:3",
            "9:3",
            "1-2-3",
            "1.0.",
            "184467440737095516160",
        ];
        for a in versions {
            for b in versions {
                let holds = |relation| Command::new("dpkg").args(["--compare-versions", a, relation, b]).status().unwrap().success();
                let ours = compare(a, b);
                assert!(
                    holds(match ours {
                        Ordering::Less => "lt",
                        Ordering::Equal => "eq",
                        Ordering::Greater => "gt",
                    }),
                    "{a} {ours:?} {b}"
                );
            }
        }
    }
}
