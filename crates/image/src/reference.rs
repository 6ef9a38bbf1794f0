//! In: an image reference as text. Out: its kind and parts.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// `docker://NAME`, or only `NAME`: in a registry, or imported under that name.
    Registry(RegistryName),
    /// `oci:PATH[:TAG]`: a directory in OCI image layout.
    Layout { path: PathBuf, tag: Option<String> },
    /// `oci-archive:PATH[:TAG]`: such a directory in an archive.
    LayoutArchive { path: PathBuf, tag: Option<String> },
    /// `docker-archive:PATH[:NAME]`: the output of `docker save` and `podman save`.
    DockerArchive { path: PathBuf, tag: Option<String> },
    /// `tar:PATH`: a root filesystem in one archive, plain or compressed.
    Tar(PathBuf),
    /// `dir:PATH`: a root filesystem that is already unpacked.
    Directory(PathBuf),
    /// `packages:DISTRIBUTION/SUITE?NAME,NAME`: made from distribution packages.
    Packages(String),
}

/// A registry name. Only told apart from a mistyped scheme here; it is parsed by `registry::name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryName(String);

impl Reference {
    /// The file or directory that it is made from; none for images from the network.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Layout { path, .. } | Self::LayoutArchive { path, .. } | Self::DockerArchive { path, .. } => Some(path),
            Self::Tar(path) | Self::Directory(path) => Some(path),
            Self::Registry(_) | Self::Packages(_) => None,
        }
    }
}

impl RegistryName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |problem| Error::Reference { text: text.to_owned(), problem };
        if let Some(name) = text.strip_prefix("docker://") {
            return registry_name(name).map(Self::Registry).map_err(wrong);
        }
        let path = |path: &str| match path {
            "" => Err(wrong("it names no path")),
            path if path.contains('\0') => Err(wrong("its path has a zero byte")),
            path => std::path::absolute(path).map_err(|_| wrong("its path has no absolute form")),
        };
        // As in skopeo and podman: the first colon ends the path.
        let tagged = |rest: &str| match rest.split_once(':') {
            Some((_, "")) => Err(wrong("its tag is empty")),
            Some((name, tag)) => Ok((path(name)?, Some(tag.to_owned()))),
            None => Ok((path(rest)?, None)),
        };
        match text.split_once(':') {
            Some(("dir", rest)) => path(rest).map(Self::Directory),
            Some(("tar", rest)) => path(rest).map(Self::Tar),
            Some(("oci", rest)) => tagged(rest).map(|(path, tag)| Self::Layout { path, tag }),
            Some(("oci-archive", rest)) => tagged(rest).map(|(path, tag)| Self::LayoutArchive { path, tag }),
            Some(("docker-archive", rest)) => tagged(rest).map(|(path, tag)| Self::DockerArchive { path, tag }),
            Some(("packages", "")) => Err(wrong("it names no packages")),
            Some(("packages", rest)) => Ok(Self::Packages(rest.to_owned())),
            _ => registry_name(text).map(Self::Registry).map_err(wrong),
        }
    }
}

/// `[HOST[:PORT]/]PATH[:TAG][@sha256:…]`. The error is the rest of a sentence about it.
fn registry_name(text: &str) -> Result<RegistryName, &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.starts_with(['/', '.']) {
        return Err("a path needs a word before it that says what it is, such as oci-archive: or tar:");
    }
    let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
    if digest.is_some_and(|digest| digest.parse::<crate::digest::Digest>().is_err()) {
        return Err("its digest is not sha256: and 64 hexadecimal digits");
    }
    let (path, tag) = match name.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (name, None),
    };
    let is_word = |text: &str, also: &[char]| {
        let inner = |character: char| character.is_ascii_alphanumeric() || also.contains(&character);
        text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.chars().all(inner)
    };
    let is_tag = |tag: &str| tag.len() <= 128 && tag.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)) && !tag.is_empty();
    let parts: Vec<_> = path.split('/').collect();
    let is_host = |part: &str| {
        let (host, port) = part.rsplit_once(':').unwrap_or((part, "0"));
        is_word(host, &['.', '-', '_']) && port.parse::<u16>().is_ok()
    };
    let is_part =
        |(number, part): (usize, &&str)| if number == 0 && parts.len() > 1 { is_host(part) } else { is_word(part, &['.', '-', '_']) };
    if text.len() > 512 || !parts.iter().enumerate().all(is_part) {
        return Err("it is not the name of an image and has no known scheme");
    }
    if parts.iter().skip(usize::from(parts.len() > 1)).any(|part| part.contains(|character: char| character.is_ascii_uppercase())) {
        return Err("names of images have no capital letters");
    }
    if !tag.is_none_or(is_tag) {
        return Err("its tag has other characters than letters, digits, _, . and -, or none, or more than 128");
    }
    Ok(RegistryName(text.to_owned()))
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tagged = |scheme: &str, path: &Path, tag: &Option<String>| match tag {
            Some(tag) => write!(out, "{scheme}:{}:{tag}", path.display()),
            None => write!(out, "{scheme}:{}", path.display()),
        };
        match self {
            Self::Layout { path, tag } => tagged("oci", path, tag),
            Self::LayoutArchive { path, tag } => tagged("oci-archive", path, tag),
            Self::DockerArchive { path, tag } => tagged("docker-archive", path, tag),
            Self::Registry(name) => out.write_str(name.as_str()),
            Self::Directory(path) => write!(out, "dir:{}", path.display()),
            Self::Tar(path) => write!(out, "tar:{}", path.display()),
            Self::Packages(text) => write!(out, "packages:{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let digest = format!("registry.example:5000/clients/gluster_fs:11@sha256:{}", "0a".repeat(32));
        for text in [
            "dir:/srv/root fs",
            "tar:/srv/a.tar.zst",
            "tar:/srv/with:colon.tar",
            "oci:/srv/layout",
            "oci:/srv/layout:v1",
            "oci-archive:/srv/a.tar",
            "docker-archive:/srv/a.tar:docker.io/library/a:latest",
            "packages:debian/bookworm?sshfs,fuse3",
            "sshfs",
            "localhost/sshfs:1",
            "localhost:5000/sshfs",
            &digest,
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_registry_is_the_default() {
        let bare: Reference = "registry.example/a:1".parse().unwrap();
        assert_eq!("docker://registry.example/a:1".parse::<Reference>().unwrap(), bare);
        assert!(matches!(bare, Reference::Registry(_)));
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for text in [
            "",
            "dir:",
            "tar:",
            "oci:",
            "oci:/x:",
            "packages:",
            "docker://",
            "zip:/x",
            "a b",
            "Upper",
            "a//b",
            "/a",
            "a/",
            "a:",
            "a@sha256:12",
            "a\nb",
            "../a",
            "https://registry.example/a",
            "a/b/../c",
            "-a",
            ".a",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_it_is_said() {
        let rows = [
            ("a@sha256:12", "64 hexadecimal digits"),
            ("docker://a@sha512:12", "64 hexadecimal digits"),
            ("Upper", "capital letters"),
            ("a:b:c", "no known scheme"),
            ("a:", "tag"),
            ("zip:/x", "no known scheme"),
            ("./client.tar", "oci-archive:"),
            ("/srv/client.tar", "oci-archive:"),
            ("docker://", "empty"),
        ];
        for (text, part) in rows {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
