//! In: `packages:debian/SUITE?NAME,NAME`. Out: the packages an image is made of.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} does not say which packages: {problem}")]
pub struct Problem {
    pub text: String,
    pub problem: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// The origin in the archive's Release, in lower case.
    pub distribution: String,
    /// `None`: the configured one, or the machine's.
    pub suite: Option<String>,
    pub packages: BTreeSet<String>,
}

impl Spec {
    /// From command line arguments.
    pub fn new<'a>(suite: Option<&str>, packages: impl IntoIterator<Item = &'a str>) -> Result<Self, Problem> {
        let packages: BTreeSet<_> = packages.into_iter().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let spec = Self { distribution: "debian".to_owned(), suite: suite.map(str::to_owned), packages };
        let wrong = |problem| Problem { text: spec.to_string(), problem };
        if spec.packages.is_empty() {
            return Err(wrong("it names no package"));
        }
        if !spec.packages.iter().all(|name| is_package_name(name)) {
            return Err(wrong("a package name has lower-case letters, digits, plus, minus and dots"));
        }
        if !spec.suite.as_deref().is_none_or(is_suite) {
            return Err(wrong("that is not the name of a suite"));
        }
        Ok(spec)
    }
}

impl FromStr for Spec {
    type Err = Problem;

    /// With or without the prefix `packages:`.
    fn from_str(text: &str) -> Result<Self, Problem> {
        let wrong = |problem| Problem { text: text.to_owned(), problem };
        let body = text.strip_prefix("packages:").unwrap_or(text);
        let (place, names) = body.split_once('?').ok_or_else(|| wrong("it names no package"))?;
        let (distribution, suite) = match place.split_once('/') {
            Some((distribution, suite)) => (distribution, Some(suite)),
            None => (place, None),
        };
        if distribution.is_empty() || !distribution.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
            return Err(wrong("it names no distribution"));
        }
        Ok(Self { distribution: distribution.to_owned(), ..Self::new(suite, names.split(','))? })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "packages:{}", self.distribution)?;
        if let Some(suite) = &self.suite {
            write!(out, "/{suite}")?;
        }
        let names: Vec<_> = self.packages.iter().map(String::as_str).collect();
        write!(out, "?{}", names.join(","))
    }
}

fn is_package_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() > 1 && name.bytes().next().is_some_and(legal) && name.bytes().all(|byte| legal(byte) || matches!(byte, b'+' | b'-' | b'.'))
}

/// A suite becomes part of paths and addresses.
pub fn is_suite(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_' | b'~');
    name.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && part.bytes().all(legal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for text in ["packages:debian/bookworm?fuse3,sshfs", "packages:debian?rclone", "packages:debian/buster/updates?libstdc++6"] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
        assert_eq!("packages:debian?sshfs,fuse3,sshfs".parse::<Spec>().unwrap().to_string(), "packages:debian?fuse3,sshfs");
    }

    #[test]
    fn refuses_what_is_no_name() {
        for text in [
            "",
            "packages:debian",
            "packages:?a",
            "packages:debian/?ab",
            "packages:debian/../x?ab",
            "packages:debian?ab,C",
            "packages:debian?,",
            "packages:debian/a b?ab",
            "packages:debian?../ab",
        ] {
            assert!(text.parse::<Spec>().is_err(), "{text:?}");
        }
    }
}
