//! In: `[HOST/]REPOSITORY[:TAG][@DIGEST]`, as docker and podman parse it. Out: its parts.

use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;

/// The registry of images without a host.
pub const DOCKER_HUB: &str = "docker.io";

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// With a port, if one was given.
    pub host: String,
    pub repository: String,
    pub tag: Option<String>,
    /// Takes precedence over the tag, which is then only informative.
    pub digest: Option<Digest>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAName(pub &'static str);

impl Name {
    /// The reference for the registry's API.
    pub(crate) fn wanted(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        }
    }

    /// The same image by digest, whatever happens to its tag.
    #[must_use]
    pub fn pinned(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }
}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => {
                (rest, Some(digest.parse().map_err(|_| NotAName("after @ comes a digest: sha256: and 64 digits, 0-9a-f"))?))
            }
            None => (text, None),
        };
        let (path, tag) = match rest.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
            _ => (rest, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(NotAName("a tag has letters, digits, '.', '_' and '-', at most 128, and begins with none of the last two"));
        }
        let (host, repository) = match path.split_once('/') {
            Some((host, repository)) if is_host(host) => (canonical_host(host), repository),
            _ => (DOCKER_HUB.to_owned(), path),
        };
        let library = host == DOCKER_HUB && !repository.contains('/');
        let repository = if library { format!("library/{repository}") } else { repository.to_owned() };
        if repository.len() > 255 || !repository.split('/').all(is_component) {
            return Err(NotAName("a repository has lower-case letters and digits, with single '.', '_', '-' or '/' between them"));
        }
        Ok(Self { host, repository, tag: tag.map(str::to_owned), digest })
    }
}

/// Whether the first part is a host: by its form it cannot be part of a repository.
fn is_host(part: &str) -> bool {
    let looks = part == "localhost" || part.contains(['.', ':']);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']');
    looks && part.bytes().all(allowed)
}

fn canonical_host(host: &str) -> String {
    match host.to_ascii_lowercase().as_str() {
        "index.docker.io" | "registry-1.docker.io" => DOCKER_HUB.to_owned(),
        host => host.to_owned(),
    }
}

fn is_tag(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let inner = |byte: u8| word(byte) || matches!(byte, b'.' | b'-');
    (1..=128).contains(&text.len()) && text.bytes().next().is_some_and(word) && text.bytes().all(inner)
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
fn is_component(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bounded = text.bytes().next().is_some_and(plain) && text.bytes().last().is_some_and(plain);
    let mut separators = text.split(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit()).filter(|run| !run.is_empty());
    bounded && separators.all(|run| matches!(run, "." | "_" | "__") || run.bytes().all(|byte| byte == b'-'))
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.host, self.repository)?;
        self.tag.as_ref().map_or(Ok(()), |tag| write!(out, ":{tag}"))?;
        self.digest.as_ref().map_or(Ok(()), |digest| write!(out, "@{digest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_docker_reads_them() {
        let digest = Digest::of(b"");
        let pinned = format!("lab.example:5000/a/b:v1@{digest}");
        let rows = [
            ("debian", "docker.io/library/debian", "latest"),
            ("debian:12", "docker.io/library/debian:12", "12"),
            ("user/image", "docker.io/user/image", "latest"),
            ("index.docker.io/debian", "docker.io/library/debian", "latest"),
            ("localhost/a", "localhost/a", "latest"),
            ("localhost:5000/a:1", "localhost:5000/a:1", "1"),
            ("LAB.example/a", "lab.example/a", "latest"),
            ("[::1]:5000/a", "[::1]:5000/a", "latest"),
            ("lab.example/a__b/c-d/e.f:X_1.2-3", "lab.example/a__b/c-d/e.f:X_1.2-3", "X_1.2-3"),
            (&pinned, &pinned, &digest.to_string()),
        ];
        for (text, full, wanted) in rows {
            let name: Name = text.parse().unwrap();
            assert_eq!((name.to_string().as_str(), name.wanted().as_str()), (full, wanted), "{text}");
            assert_eq!(full.parse::<Name>().unwrap(), name, "{text}");
        }
    }

    #[test]
    fn what_no_registry_has_is_refused() {
        let long = format!("a:{}", "x".repeat(129));
        let rows = [
            "",
            ":",
            "@",
            "a:",
            "a@",
            "a@sha256:12",
            "a@md5:00",
            "A",
            "lab.example/",
            "lab.example/A",
            "a//b",
            "a/../b",
            "lab.example/../x",
            "a/-b",
            "a_",
            "a..b",
            "a___b",
            "a:-x",
            "a:.x",
            "a b",
            "a?b",
            "a%2fb",
            "a\n",
            "me@lab.example/a",
            &long,
        ];
        for text in rows {
            assert!(text.parse::<Name>().is_err(), "{text:?} became {:?}", text.parse::<Name>());
        }
    }
}
