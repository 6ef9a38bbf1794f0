//! Bytes that are mostly text, converted for display and JSON, and back.
//!
//! Paths can hold any byte but NUL; JSON strings only Unicode. Bytes that are not UTF-8, the backslash itself, and terminal control
//! characters are written as a backslash and three octal digits, as in /proc/self/mountinfo.
//!
//! Also the only filter for untrusted text ([`printable`]): clients, images, registries and servers contribute to most of our output, and
//! none of them may send control sequences to the terminal, or add lines that look like ours.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use serde::{Deserialize as _, Deserializer, Serializer};

pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '\\' || steers_a_terminal(character) {
                octal(&mut text, character.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                text.push(character);
            }
        }
        octal(&mut text, chunk.invalid());
    }
    text
}

fn octal(text: &mut String, bytes: &[u8]) {
    bytes.iter().for_each(|byte| text.push_str(&format!("\\{byte:03o}")));
}

/// Text of several lines, for a terminal. Also safe for JSON: control characters can only occur inside strings, where JSON escapes them.
pub fn printable(text: &str) -> Cow<'_, str> {
    filtered(text, |character| character != '\n' && character != '\t' && steers_a_terminal(character))
}

/// Text that must stay on one line.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    filtered(text, |character| character != '\t' && steers_a_terminal(character))
}

fn filtered(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut filtered = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_escaped(character) {
            filtered.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            filtered.push(character);
        }
    }
    Cow::Owned(filtered)
}

/// The control characters of ASCII and of Latin 1 (U+009B begins a sequence as ESC [ does), line separators, and bidirectional controls,
/// which can make a line read differently.
fn steers_a_terminal(character: char) -> bool {
    const DIRECTIONS: [char; 12] = [
        '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}',
        '\u{2069}',
    ];
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') || DIRECTIONS.contains(&character)
}

/// An address without the password that it may contain: `ftp://me:secret@host` becomes `ftp://me:…@host`.
pub fn without_password(address: &OsStr) -> OsString {
    let bytes = address.as_bytes();
    let find = |from: usize, wanted: &[u8]| bytes[from..].windows(wanted.len()).position(|found| found == wanted).map(|at| from + at);
    let password = || {
        let start = find(0, b"://")? + 3;
        let authority = &bytes[start..bytes[start..].iter().position(|byte| b"/?#".contains(byte)).map_or(bytes.len(), |end| start + end)];
        let end = authority.iter().rposition(|byte| *byte == b'@')?;
        let colon = authority[..end].iter().position(|byte| *byte == b':')?;
        Some((start + colon + 1, start + end))
    };
    match password() {
        Some((from, to)) => OsString::from_vec([&bytes[..from], "…".as_bytes(), &bytes[to..]].concat()),
        None => address.to_owned(),
    }
}

pub fn unescape(text: &str) -> Vec<u8> {
    shorefast_sys::mountinfo::unescape(text.as_bytes())
}

pub fn serialize<S: Serializer>(value: &impl AsRef<OsStr>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&escape(value.as_ref().as_bytes()))
}

pub fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(T::from(OsString::from_vec(unescape(&text))))
}

/// The same for optional values.
pub mod optional {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub fn serialize<S: Serializer>(value: &Option<impl AsRef<OsStr>>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(|value| crate::text::escape(value.as_ref().as_bytes())).serialize(serializer)
    }

    pub fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(text.map(|text| T::from(OsString::from_vec(crate::text::unescape(&text)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_byte_string_survives(bytes: Vec<u8>) {
            proptest::prop_assert_eq!(unescape(&escape(&bytes)), bytes);
        }
    }

    #[test]
    fn a_password_in_an_address_is_not_shown() {
        let rows = [
            ("ftp://me:sec:r@t@host:21/a:b@c", "ftp://me:…@host:21/a:b@c"),
            ("https://me:secret@host", "https://me:…@host"),
            ("https://me@host:1/x", "https://me@host:1/x"),
            ("https://host:1/user:x@y", "https://host:1/user:x@y"),
            ("me@host:/data", "me@host:/data"),
            ("//server/share", "//server/share"),
            ("://:@", "://:…@"),
            ("", ""),
        ];
        for (address, shown) in rows {
            assert_eq!(without_password(OsStr::new(address)), OsStr::new(shown));
        }
    }

    #[test]
    fn ordinary_paths_are_unchanged() {
        assert_eq!(escape("/srv/дата two".as_bytes()), "/srv/дата two");
        assert_eq!(escape(b"/a\\b\xff"), "/a\\134b\\377");
        assert_eq!(escape("/a\n\u{1b}[2J\u{9b}".as_bytes()), "/a\\012\\033[2J\\302\\233");
    }

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        let rows = [
            ("plain, дата, 日本\tand\ntwo lines", "plain, дата, 日本\tand\ntwo lines"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "\\u001b[2J\\u001b]0;title\\u0007"),
            ("\u{9b}31m\u{7f}\r", "\\u009b31m\\u007f\\u000d"),
            ("a\u{202e}b\u{2066}c\u{2028}", "a\\u202eb\\u2066c\\u2028"),
        ];
        for (text, expected) in rows {
            assert_eq!(printable(text), expected);
            assert_eq!(printable_line(text), expected.replace('\n', "\\u000a"));
        }
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = serde_json::json!({ "a": "\u{1b}[2J\u{9b}\u{202e}\n" });
        let text = format!("{value:#}");
        assert!(text.contains('\u{9b}'), "serde_json leaves these to us");
        let safe = printable(&text);
        assert!(!safe.contains(['\u{9b}', '\u{202e}', '\u{1b}']));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }
}
