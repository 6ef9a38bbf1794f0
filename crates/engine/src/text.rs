//! Bytes that are mostly text, in JSON and back.
//!
//! Paths can hold anything but NUL; JSON strings only Unicode. What is not UTF-8, and the
//! backslash itself, is written as a backslash and three octal digits, as /proc/self/mountinfo does.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use serde::{Deserialize as _, Deserializer, Serializer};

pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '\\' { text.push_str("\\134") } else { text.push(character) }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\{byte:03o}"));
        }
    }
    text
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
    fn ordinary_paths_are_unchanged() {
        assert_eq!(escape("/srv/дата two\n".as_bytes()), "/srv/дата two\n");
        assert_eq!(escape(b"/a\\b\xff"), "/a\\134b\\377");
    }
}
