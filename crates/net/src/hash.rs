//! The expected hash of data, and the hashing.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256, Sha512};

use crate::error::Error;

/// A hash that is strong enough to trust data by. Written as `sha256:HEX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hash {
    Sha256([u8; 32]),
    Sha512([u8; 64]),
}

impl Hash {
    pub fn sha256_of(data: &[u8]) -> Self {
        Self::Sha256(Sha256::digest(data).into())
    }

    /// The hash of `data` of the same kind as this one.
    #[must_use]
    pub fn same_kind_of(&self, data: &[u8]) -> Self {
        let mut hasher = self.hasher();
        hasher.update(data);
        hasher.finish()
    }

    pub fn hasher(&self) -> Hasher {
        match self {
            Self::Sha256(_) => Hasher::Sha256(Sha256::new()),
            Self::Sha512(_) => Hasher::Sha512(Sha512::new()),
        }
    }

    /// Without the kind, as used in file names.
    pub fn hex(&self) -> String {
        match self {
            Self::Sha256(bytes) => hex::encode(bytes),
            Self::Sha512(bytes) => hex::encode(bytes),
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "sha256",
            Self::Sha512(_) => "sha512",
        }
    }
}

impl FromStr for Hash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Hash { text: text.to_owned() };
        let (kind, digits) = text.split_once(':').ok_or_else(wrong)?;
        // One spelling per hash: it is used in file names.
        if digits.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(wrong());
        }
        let mut hash = match kind {
            "sha256" => Self::Sha256([0; 32]),
            "sha512" => Self::Sha512([0; 64]),
            _ => return Err(wrong()),
        };
        match &mut hash {
            Self::Sha256(bytes) => hex::decode_to_slice(digits, bytes),
            Self::Sha512(bytes) => hex::decode_to_slice(digits, bytes),
        }
        .map_err(|_| wrong())?;
        Ok(hash)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.kind(), self.hex())
    }
}

/// Hashes data incrementally.
#[derive(Clone, Debug)]
pub enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    pub fn update(&mut self, data: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(data),
            Self::Sha512(hasher) => hasher.update(data),
        }
    }

    pub fn finish(self) -> Hash {
        match self {
            Self::Sha256(hasher) => Hash::Sha256(hasher.finalize().into()),
            Self::Sha512(hasher) => Hash::Sha512(hasher.finalize().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Hash::sha256_of(b"").to_string(), empty);
        let long = Hash::Sha512([7; 64]);
        for hash in [empty.parse().unwrap(), long] {
            assert_eq!(hash.to_string().parse::<Hash>().unwrap(), hash);
            assert_eq!(hash.same_kind_of(b"x").kind(), hash.kind());
        }
    }

    #[test]
    fn refuses_what_is_no_hash_or_too_weak() {
        let upper = format!("sha256:{}", "A".repeat(64));
        let dots = format!("sha256:{}", "../".repeat(22));
        for text in ["", "sha256", "sha256:", "sha256:00", "md5:d41d8cd98f00b204e9800998ecf8427e", &upper, &dots] {
            assert!(text.parse::<Hash>().is_err(), "{text}");
        }
    }
}
