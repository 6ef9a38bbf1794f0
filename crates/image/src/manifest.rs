//! In: indexes, manifests and configurations in the formats of the OCI and Docker. Out: what is needed to find and verify the layers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// Real ones are far smaller; a longer one is refused.
pub const LONGEST: u64 = 4 << 20;
/// An index may refer to an index: real ones do not go deeper, and a cycle has no end.
pub const NESTING: u32 = 4;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default)]
    pub platform: Option<Platform>,
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Platform {
    pub os: String,
    pub architecture: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    /// One image in several builds.
    Index(Vec<Descriptor>),
    Manifest(Manifest),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Manifest {
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Config {
    #[serde(default)]
    pub os: String,
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub rootfs: Rootfs,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Rootfs {
    #[serde(default)]
    pub diff_ids: Vec<Digest>,
}

pub fn parse(bytes: &[u8]) -> Result<Document, String> {
    // Told apart by their content: media types are often missing, and sometimes wrong.
    #[derive(Deserialize)]
    struct Either {
        manifests: Option<Vec<Descriptor>>,
        config: Option<Descriptor>,
        layers: Option<Vec<Descriptor>>,
    }
    match serde_json::from_slice(bytes).map_err(|error| error.to_string())? {
        Either { manifests: Some(manifests), .. } => Ok(Document::Index(manifests)),
        Either { config: Some(config), layers: Some(layers), .. } => Ok(Document::Manifest(Manifest { config, layers })),
        _ => Err("neither an index nor a manifest of schema 2".to_owned()),
    }
}

pub fn parse_config(bytes: &[u8]) -> Result<Config, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

impl Platform {
    pub fn here() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "x86" => "386",
            "aarch64" => "arm64",
            "powerpc64" => "ppc64le",
            "loongarch64" => "loong64",
            same => same,
        };
        Self { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: None }
    }

    /// Whether this machine runs what was built for `other`.
    fn runs(&self, other: &Self) -> bool {
        self.os == other.os && self.architecture == other.architecture
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(out, "/{variant}"))
    }
}

/// The build for `platform`; of several, the first. For one without a platform, the configuration decides.
pub fn choose<'a>(manifests: &'a [Descriptor], platform: &Platform) -> Result<&'a Descriptor, NoneFits> {
    let fits = |descriptor: &&Descriptor| descriptor.platform.as_ref().is_some_and(|other| platform.runs(other));
    let silent = |descriptor: &&Descriptor| descriptor.platform.is_none();
    manifests.iter().find(fits).or_else(|| manifests.iter().find(silent)).ok_or_else(|| NoneFits {
        wanted: platform.clone(),
        there: manifests.iter().filter_map(|descriptor| descriptor.platform.as_ref()).map(Platform::to_string).collect(),
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoneFits {
    pub wanted: Platform,
    pub there: Vec<String>,
}

impl Config {
    /// A configuration without a platform fits every platform.
    pub fn check_platform(&self, platform: &Platform) -> Result<(), NoneFits> {
        let own = Platform { os: self.os.clone(), architecture: self.architecture.clone(), variant: None };
        let says_nothing = self.os.is_empty() && self.architecture.is_empty();
        if says_nothing || platform.runs(&own) { Ok(()) } else { Err(NoneFits { wanted: platform.clone(), there: vec![own.to_string()] }) }
    }
}

/// Whether the content is an archive of files. The compression is detected by content.
pub fn is_layer(media_type: &str) -> bool {
    let plain = media_type.split('+').next().unwrap_or_default().trim_end_matches(".gzip");
    media_type.is_empty()
        || matches!(
            plain,
            "application/vnd.oci.image.layer.v1.tar"
                | "application/vnd.oci.image.layer.nondistributable.v1.tar"
                | "application/vnd.docker.image.rootfs.diff.tar"
                | "application/vnd.docker.image.rootfs.foreign.diff.tar"
        ) && !media_type.contains("+encrypted")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(platform: &str) -> Descriptor {
        let parts: Vec<_> = platform.split('/').map(str::to_owned).collect();
        let platform = (parts.len() > 1).then(|| Platform { os: parts[0].clone(), architecture: parts[1].clone(), variant: None });
        Descriptor { media_type: String::new(), digest: Digest::of(b""), size: 0, platform, annotations: None }
    }

    #[test]
    fn the_build_for_this_machine_is_chosen() {
        let here = Platform { os: "linux".into(), architecture: "arm64".into(), variant: None };
        let rows: &[(&[&str], Option<usize>)] = &[
            (&["linux/amd64", "linux/arm64"], Some(1)),
            (&["windows/arm64", "linux/arm64", "linux/arm64"], Some(1)),
            (&["linux/amd64", "unknown/unknown"], None),
            (&["linux/amd64", ""], Some(1)),
            (&[], None),
        ];
        for (platforms, expected) in rows {
            let all: Vec<_> = platforms.iter().map(|platform| descriptor(platform)).collect();
            let chosen = choose(&all, &here).ok().and_then(|chosen| all.iter().position(|one| std::ptr::eq(one, chosen)));
            assert_eq!(chosen, *expected, "{platforms:?}");
        }
    }

    #[test]
    fn documents_are_told_by_their_content() {
        let digest = Digest::of(b"");
        let one = format!(r#"{{"digest":"{digest}","size":1,"mediaType":"x"}}"#);
        assert!(matches!(parse(format!(r#"{{"manifests":[{one}]}}"#).as_bytes()), Ok(Document::Index(_))));
        assert!(matches!(parse(format!(r#"{{"config":{one},"layers":[{one}]}}"#).as_bytes()), Ok(Document::Manifest(_))));
        for text in [
            "",
            "[]",
            "{}",
            r#"{"schemaVersion":1,"fsLayers":[]}"#,
            r#"{"manifests":[{"digest":"md5:1","size":1}]}"#,
            r#"{"manifests":[{"size":-1}]}"#,
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn only_archives_of_files_are_layers() {
        let rows = [
            ("", true),
            ("application/vnd.oci.image.layer.v1.tar", true),
            ("application/vnd.oci.image.layer.v1.tar+gzip", true),
            ("application/vnd.oci.image.layer.v1.tar+zstd", true),
            ("application/vnd.docker.image.rootfs.diff.tar.gzip", true),
            ("application/vnd.oci.image.layer.v1.tar+gzip+encrypted", false),
            ("application/vnd.in-toto+json", false),
            ("application/vnd.wasm.content.layer.v1+wasm", false),
        ];
        for (media_type, expected) in rows {
            assert_eq!(is_layer(media_type), expected, "{media_type}");
        }
    }
}
