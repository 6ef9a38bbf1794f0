//! The built-in client definitions: the files in `catalogue/`, embedded in the binary in the form that is fastest to parse (`build.rs`).

use crate::definition::Layer;

/// Sorted by name.
const ALL: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));

pub fn names<'a>() -> impl Iterator<Item = &'a str> {
    ALL.iter().map(|(name, _)| *name)
}

pub fn named(name: &str) -> Option<Layer> {
    let (_, text) = ALL.iter().find(|(known, _)| *known == name)?;
    Some(serde_json::from_str(text).expect("each is read in a test"))
}

/// The names of definitions that may list a type. A text search is enough to rule out the rest.
pub fn mentioning<'a>(fstype: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let quoted = format!("\"{fstype}\"");
    ALL.iter().filter(move |(_, text)| text.contains(&quoted)).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_definition_is_whole_and_no_type_has_two() {
        let mut types = Vec::new();
        for name in names() {
            let definition = named(name).map(Layer::complete).unwrap().unwrap_or_else(|problem| panic!("{name}: {problem}"));
            let image = definition.image.unwrap_or_else(|| panic!("{name} has no image"));
            assert!(image.starts_with("packages:debian/"), "{name}: {image}");
            image.parse::<shorefast_image::Reference>().unwrap_or_else(|error| panic!("{name}: {error}"));
            types.extend(definition.types);
        }
        assert!(names().is_sorted());
        let count = types.len();
        types.sort();
        types.dedup();
        assert_eq!(types.len(), count, "{types:?}");
    }

    #[test]
    fn every_definition_is_what_its_file_says() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("catalogue");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), ALL.len());
        for name in names() {
            let written = Layer::parse(&fs::read_to_string(directory.join(name).with_extension("toml")).unwrap()).unwrap();
            assert_eq!(format!("{:?}", named(name).unwrap()), format!("{written:?}"));
        }
    }

    /// What must not run twice at once is not upgraded while it serves. Everybody else can be: they keep nothing that another client of the
    /// same source would spoil, or only read.
    #[test]
    fn who_must_not_run_twice_says_so() {
        let (exclusive, others): (Vec<_>, Vec<_>) = names().partition(|name| named(name).map(Layer::complete).unwrap().unwrap().exclusive);
        assert_eq!(exclusive, EXCLUSIVE);
        assert_eq!(others, SEVERAL, "a new definition has to be in one of the lists");
    }

    const EXCLUSIVE: [&str; 13] = [
        "archivemount",
        "cryfs",
        "davfs",
        "encfs",
        "fuse-overlayfs",
        "fuse-zip",
        "fuse2fs",
        "fusefat",
        "gocryptfs",
        "nbdfuse",
        "ntfs-3g",
        "s3backer",
        "securefs",
    ];

    const SEVERAL: [&str; 23] = [
        "avfs",
        "bindfs",
        "borg",
        "ceph",
        "ceph-fuse",
        "cifs",
        "convmvfs",
        "curlftpfs",
        "disorderfs",
        "erofsfuse",
        "fuseiso",
        "glusterfs",
        "httpdirfs",
        "mergerfs",
        "moosefs",
        "nfs",
        "posixovl",
        "rclone",
        "restic",
        "s3fs",
        "smbnetfs",
        "squashfuse",
        "sshfs",
    ];

    #[test]
    fn files_that_options_name_are_shown() {
        for name in names() {
            let definition = named(name).map(Layer::complete).unwrap().unwrap();
            for option in definition.files {
                let shown = crate::options::redacted(&format!("{option}=/etc/x"));
                assert_eq!(shown, format!("{option}=/etc/x"), "{name}");
            }
        }
    }

    #[test]
    fn every_type_is_mentioned_where_it_is_listed() {
        assert_eq!(mentioning("nfs4").collect::<Vec<_>>(), ["nfs"]);
        assert_eq!(mentioning("nosuch").count(), 0);
    }
}
