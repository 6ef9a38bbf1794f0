//! sha256 digests, as image formats write them.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// `sha256:` and 64 hexadecimal digits. No other algorithm is in use for images.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Shortened for a table.
    pub fn short(&self) -> String {
        self.hex()[..12].to_owned()
    }

    pub(crate) fn finished(hash: Sha256) -> Self {
        Self(hash.finalize().into())
    }

    /// Only the digits: also the name of the image's directory in the store.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The inverse of [`Digest::hex`].
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        // Upper case is refused: one spelling per image.
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        Some(Self(bytes))
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        text.strip_prefix("sha256:").and_then(Self::from_hex).ok_or_else(|| NotADigest(text.to_owned()))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a digest of the form sha256:…")]
pub struct NotADigest(String);

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_nothing_else() {
        let digest = Digest::of(b"");
        assert_eq!(digest.to_string(), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        let upper = digest.to_string().to_uppercase().replace("SHA", "sha");
        for text in ["", "sha256:", "sha512:aa", &upper, &digest.hex(), &format!("{digest}0"), "sha256:../../../../etc/passwd"] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
