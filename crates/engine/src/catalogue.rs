//! The built-in client definitions: data files of this crate, embedded in the binary.

/// By name, in the order of names.
pub const ALL: &[(&str, &str)] = &[
    ("bindfs", include_str!("../catalogue/bindfs.toml")),
    ("ceph", include_str!("../catalogue/ceph.toml")),
    ("ceph-fuse", include_str!("../catalogue/ceph-fuse.toml")),
    ("cifs", include_str!("../catalogue/cifs.toml")),
    ("davfs", include_str!("../catalogue/davfs.toml")),
    ("glusterfs", include_str!("../catalogue/glusterfs.toml")),
    ("nfs", include_str!("../catalogue/nfs.toml")),
    ("rclone", include_str!("../catalogue/rclone.toml")),
    ("s3fs", include_str!("../catalogue/s3fs.toml")),
    ("sshfs", include_str!("../catalogue/sshfs.toml")),
];

pub fn named(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Those that may list a type. A look at the text is enough to leave out the rest: reading all of them would cost every mount
/// half a millisecond.
pub fn mentioning(fstype: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let quoted = format!("\"{fstype}\"");
    ALL.iter().copied().filter(move |(_, text)| text.contains(&quoted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Layer;

    #[test]
    fn every_definition_is_whole_and_no_type_has_two() {
        let mut types = Vec::new();
        for (name, text) in ALL {
            let definition = Layer::parse(text).and_then(Layer::complete).unwrap_or_else(|problem| panic!("{name}: {problem}"));
            let image = definition.image.unwrap_or_else(|| panic!("{name} has no image"));
            assert!(image.starts_with("packages:debian/"), "{name}: {image}");
            image.parse::<shorefast_image::Reference>().unwrap_or_else(|error| panic!("{name}: {error}"));
            types.extend(definition.types);
        }
        assert!(ALL.is_sorted_by_key(|(name, _)| *name));
        let count = types.len();
        types.sort();
        types.dedup();
        assert_eq!(types.len(), count, "{types:?}");
    }

    #[test]
    fn every_type_is_mentioned_where_it_is_listed() {
        assert_eq!(mentioning("nfs4").map(|(name, _)| name).collect::<Vec<_>>(), ["nfs"]);
        assert_eq!(mentioning("nosuch").count(), 0);
    }
}
