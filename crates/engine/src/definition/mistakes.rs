//! In: the text of a client file. Out: what it says, or all its mistakes at once: whoever corrects one should not meet the next at every call.

use std::ops::Range;

use serde::de::DeserializeOwned;
use shorefast_image::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Enough for anybody's file; one that is no client file at all has more.
const ENOUGH: usize = 20;

/// Each mistake names its line and key, and the key that was probably meant. `others`: what else is wrong with what could be read.
pub(super) fn parse<T: DeserializeOwned>(text: &str, others: impl FnOnce(T) -> Vec<String>) -> Result<T, String> {
    let (mut mistakes, mut rest) = (Vec::new(), text.to_owned());
    loop {
        let error = match toml::from_str::<T>(&rest) {
            Ok(read) if mistakes.is_empty() => return Ok(read),
            Ok(read) => {
                mistakes.extend(others(read));
                break;
            }
            Err(error) => error,
        };
        mistakes.push(described(&error));
        // The parser stops at the first mistake: it reads the file again without that.
        match error.span().and_then(|span| without(&rest, span.start)) {
            Some(less) if mistakes.len() < ENOUGH => rest = less,
            _ => break,
        }
    }
    Err(mistakes.join("\n"))
}

fn described(error: &toml::de::Error) -> String {
    let shown = error.to_string().trim_end().to_owned();
    match nearest_key(error.message()) {
        Some(key) => format!("{shown}\ndid you mean `{key}`?"),
        None => shown,
    }
}

/// In "unknown field `tpyes`, expected one of `types`, …", the expected key that is most similar.
fn nearest_key(message: &str) -> Option<&str> {
    let mut quoted = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    nearest(quoted.next()?, quoted)
}

/// The text with spaces in place of the smallest entry around this byte, so that lines keep their numbers. `None`: nothing can be left out.
fn without(text: &str, byte: usize) -> Option<String> {
    let mut around = Vec::new();
    collect(DeTable::parse(text).ok()?.get_ref(), byte, &mut around);
    around.sort_by_key(Range::len);
    around.into_iter().find_map(|range| {
        let blank: String = text[range.clone()].chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }).collect();
        let less = [&text[..range.start], &blank, &text[range.end..]].concat();
        // Of an inline table, a comma may be left over: then the whole table goes.
        DeTable::parse(&less).is_ok().then_some(less)
    })
}

fn collect(table: &DeTable<'_>, byte: usize, around: &mut Vec<Range<usize>>) {
    for (key, value) in table {
        let range = key.span().start..value.span().end;
        if range.contains(&byte) {
            around.push(range);
        }
        descend(value, byte, around);
    }
}

fn descend(value: &Spanned<DeValue<'_>>, byte: usize, around: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Table(table) => collect(table, byte, around),
        DeValue::Array(values) => values.iter().for_each(|value| descend(value, byte, around)),
        _ => {}
    }
}

/// What a command's words can hold.
const PLACES: [&str; 5] = ["{type}", "{flags}", "{options}", "{source}", "{target}"];

/// A word in braces that stands for nothing would reach the helper as it is. `${name}` is a shell's.
pub(super) fn unknown_place(word: &str) -> Option<&str> {
    let mut from = 0;
    while let Some(open) = word[from..].find('{').map(|found| from + found) {
        let length = word[open..].find('}')?;
        let place = &word[open..=open + length];
        let is_name = place.len() > 2 && place[1..length].chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
        if is_name && !word[..open].ends_with('$') && !PLACES.contains(&place) {
            return Some(place);
        }
        from = open + 1;
    }
    None
}

pub(super) fn about_place(place: &str) -> String {
    format!("key `command`: {place} stands for nothing; there are {}", PLACES.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_in_braces_are_places() {
        let rows = [
            ("{src}", Some("{src}")),
            ("x{a_b}y", Some("{a_b}")),
            ("{source}{src}", Some("{src}")),
            ("{source}:{target}", None),
            ("${HOME}", None),
            ("${home}", None),
            ("{}", None),
            ("{\"json\": 1}", None),
            ("{", None),
        ];
        for (word, expected) in rows {
            assert_eq!(unknown_place(word), expected, "{word}");
        }
    }
}
