//! Names of volumes, and ids of their users: both become names of files.

use crate::error::Error;

/// Names that Docker and Podman themselves allow, and that fit into a file name.
pub fn check(text: &str) -> Result<(), Error> {
    let is_first = |byte: u8| byte.is_ascii_alphanumeric();
    let is_legal = |byte: u8| is_first(byte) || matches!(byte, b'_' | b'.' | b'-');
    if text.len() <= 255 && text.bytes().next().is_some_and(is_first) && text.bytes().all(is_legal) {
        Ok(())
    } else {
        // A name that is sent by mistake may be a megabyte.
        Err(Error::Name(text.chars().take(300).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_legal_character_and_no_other() {
        for byte in 0..=u8::MAX {
            let character = char::from(byte);
            let legal = character.is_ascii_alphanumeric() || "_.-".contains(character);
            assert_eq!(check(&format!("a{character}")).is_ok(), legal, "{character:?}");
            assert_eq!(check(&character.to_string()).is_ok(), character.is_ascii_alphanumeric(), "{character:?}");
        }
        let long = "a".repeat(255);
        let too_long = "a".repeat(256);
        for (name, expected) in [("", false), ("..", false), ("a/b", false), ("a..b", true), (&*long, true), (&*too_long, false)] {
            assert_eq!(check(name).is_ok(), expected, "{name:?}");
        }
    }
}
