//! Selects a container: `NAME` or `KEY=VALUE`, optionally prefixed by `docker:`, `podman:` or `containerd:`.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// None: any runtime.
    pub runtime: Option<Runtime>,
    pub by: By,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    Name(String),
    Label { key: String, value: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    Docker,
    Podman,
    Containerd,
}

/// A text that selects no container.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} names no container: {problem}")]
pub struct Malformed {
    text: String,
    problem: &'static str,
}

impl Runtime {
    pub const ALL: [Self; 3] = [Self::Docker, Self::Podman, Self::Containerd];

    fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Containerd => "containerd",
        }
    }
}

impl FromStr for Selector {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let fail = |problem| Malformed { text: text.to_owned(), problem };
        let named = |(name, rest)| Runtime::ALL.into_iter().find(|runtime| runtime.name() == name).map(|runtime| (runtime, rest));
        // A label may have a colon of its own: `a:b=c` is a label of the key `a:b`.
        let (runtime, rest) = text.split_once(':').and_then(named).map_or((None, text), |(runtime, rest)| (Some(runtime), rest));
        // What these allow goes into questions to the runtimes as it is; quotes and control characters would mean something there.
        let is_plain = |text: &str, more: &str| text.chars().all(|one| one.is_ascii_alphanumeric() || more.contains(one));
        let by = match rest.split_once('=') {
            Some(("", _)) => return Err(fail("a label has a key before its =")),
            Some((key, _)) if !is_plain(key, "._-/:") => return Err(fail("a label's key has letters, digits and . _ - / : only")),
            Some((_, value)) if !is_plain(value, "._-/:@+, ") => {
                return Err(fail("a label's value has letters, digits, spaces and . _ - / : @ + , only"));
            }
            Some((key, value)) => By::Label { key: key.to_owned(), value: value.to_owned() },
            None if rest.is_empty() => return Err(fail("it is empty")),
            None if !is_plain(rest, "._-") => return Err(fail("a name has letters, digits and . _ - only; a label is KEY=VALUE")),
            None => By::Name(rest.to_owned()),
        };
        Ok(Self { runtime, by })
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(runtime) = self.runtime {
            write!(out, "{runtime}:")?;
        }
        match &self.by {
            By::Name(name) => out.write_str(name),
            By::Label { key, value } => write!(out, "{key}={value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_labels_and_runtimes() {
        let label = |key: &str, value: &str| By::Label { key: key.into(), value: value.into() };
        let rows = [
            ("clients", None, By::Name("clients".into())),
            ("docker:clients", Some(Runtime::Docker), By::Name("clients".into())),
            ("role=mounter", None, label("role", "mounter")),
            ("podman:a.b/c=d e", Some(Runtime::Podman), label("a.b/c", "d e")),
            ("a:b=c", None, label("a:b", "c")),
            ("key=", None, label("key", "")),
        ];
        for (text, runtime, by) in rows {
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector, Selector { runtime, by });
            assert_eq!(selector.to_string(), text);
        }
    }

    #[test]
    fn what_could_mean_something_to_a_runtime_is_refused() {
        for text in ["", "docker:", "=x", "a b", "../x", "a?b", "k=\"x\"", "k\n=v", "k=v\"||true", "-a\0"] {
            assert!(text.parse::<Selector>().is_err(), "{text:?}");
        }
    }
}
