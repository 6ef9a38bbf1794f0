//! In: the command of a definition, with placeholders, and their values. Out: the words of the client's command.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use shorefast_sandbox::spec;

use crate::request::HelperFlag;

pub(super) struct Values<'a> {
    pub fstype: &'a str,
    pub options: &'a str,
    pub flags: &'a [HelperFlag],
    pub source: &'a OsStr,
}

/// Fills in the command's placeholders. Without options, the pair `-o {options}` is dropped; `{flags}` expands to any number of words.
pub(super) fn expand(command: &[String], values: &Values<'_>) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    for word in command {
        if word == "{options}" && values.options.is_empty() {
            if words.last().is_some_and(|last| last == "-o") {
                words.pop();
            }
            continue;
        }
        if word == "{flags}" {
            words.extend(values.flags.iter().map(|flag| flag.word().into()));
        } else {
            words.push(fill(word, values));
        }
    }
    words
}

/// One pass from left to right: text from a value is never expanded again.
fn fill(word: &str, values: &Values<'_>) -> OsString {
    let places: [(&str, &OsStr); 4] = [
        ("{type}", OsStr::new(values.fstype)),
        ("{options}", OsStr::new(values.options)),
        ("{source}", values.source),
        ("{target}", OsStr::new(spec::TARGET)),
    ];
    let mut filled = Vec::new();
    let mut rest = word;
    while !rest.is_empty() {
        if let Some((name, value)) = places.iter().find(|(name, _)| rest.starts_with(name)) {
            filled.extend_from_slice(value.as_bytes());
            rest = &rest[name.len()..];
        } else {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            filled.extend_from_slice(&rest.as_bytes()[..next]);
            rest = &rest[next..];
        }
    }
    OsString::from_vec(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(command: &[&str], options: &str) -> Vec<String> {
        let command: Vec<_> = command.iter().map(|word| (*word).to_owned()).collect();
        let flags = [HelperFlag::Sloppy, HelperFlag::Verbose];
        let values = Values { fstype: "t", options, flags: &flags[..options.len().min(2)], source: OsStr::new("{target}") };
        expand(&command, &values).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn placeholders_are_filled_once() {
        let rows: &[(&[&str], &str, &[&str])] = &[
            (
                &["m", "-t", "{type}", "-o", "{options}", "{source}", "{target}"],
                "a=b",
                &["m", "-t", "t", "-o", "a=b", "{target}", spec::TARGET],
            ),
            (&["m", "-o", "{options}", "{target}"], "", &["m", spec::TARGET]),
            (&["m", "{options}", "{target}"], "", &["m", spec::TARGET]),
            (&["m", "--opts={options}", "x{type}y"], "", &["m", "--opts=", "xty"]),
            (&["{unknown}", "{"], "", &["{unknown}", "{"]),
            (&["m", "{flags}", "x"], "", &["m", "x"]),
            (&["m", "{flags}", "x"], "a", &["m", "-s", "x"]),
            (&["m", "{flags}", "-o", "{options}"], "ab", &["m", "-s", "-v", "-o", "ab"]),
        ];
        for (command, options, expected) in rows {
            assert_eq!(expanded(command, options), *expected);
        }
    }
}
