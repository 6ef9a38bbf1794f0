//! Ids of volumes. Those that others chose are only checked; one that we provisioned says where its base is and by which key the base knows
//! it, so that it can be deleted by its id alone.

use std::collections::HashMap;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use tonic::Status;

use crate::volume::SUB_DIRECTORY;

/// The longest id that we take: Kubernetes does not mind.
const LONGEST: usize = 4096;
/// The longest that we give: the specification's limit.
const LONGEST_OF_OURS: usize = 128;

/// Attributes of the base, in the order in which they are written.
const PARTS: [&str; 5] = ["type", "source", "mountOptions", "client", "image"];
const ENCODED: &AsciiSet = &CONTROLS.add(b'#').add(b'%').add(b' ');

pub fn check(id: &str) -> Result<(), Status> {
    match id.len() {
        0 => Err(Status::invalid_argument("volume_id is missing")),
        length if length > LONGEST || id.contains('\0') => Err(Status::invalid_argument("volume_id is too long, or has a NUL")),
        _ => Ok(()),
    }
}

/// A volume that we provisioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provisioned {
    pub key: String,
    /// How its base is mounted.
    pub base: HashMap<String, String>,
}

impl Provisioned {
    pub fn id(&self) -> Result<String, Status> {
        let encode = |name: &&str| {
            let value = self.base.get(*name).map(String::as_str).unwrap_or_default();
            utf8_percent_encode(value, ENCODED).to_string()
        };
        let parts: Vec<_> = PARTS.iter().map(encode).collect();
        let id = format!("{}#{}", self.key, parts.join("#"));
        let id = id.trim_end_matches('#').to_owned();
        if id.len() > LONGEST_OF_OURS {
            return Err(Status::invalid_argument(format!(
                "the volume's id would have {} bytes, and CSI allows {LONGEST_OF_OURS}: source, mountOptions, client and image are part of it \
                 (hint: write options and image into a client definition on the nodes, and name that with `client`)",
                id.len()
            )));
        }
        Ok(id)
    }

    /// `None`: not ours.
    pub fn parse(id: &str) -> Option<Self> {
        let (key, rest) = id.split_once('#')?;
        let is_key = key.len() == 20 && key.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let values = rest.split('#').map(|part| percent_decode_str(part).decode_utf8().ok().map(|value| value.into_owned()));
        let values: Vec<_> = values.collect::<Option<_>>()?;
        if !is_key || values.len() > PARTS.len() {
            return None;
        }
        let base: HashMap<_, _> =
            PARTS.iter().zip(values).filter(|(_, value)| !value.is_empty()).map(|(name, value)| ((*name).to_owned(), value)).collect();
        let ours = Self { key: key.to_owned(), base };
        // One way to write each: two ids are never the same volume.
        (ours.base.contains_key("type") && ours.id().is_ok_and(|written| written == id)).then_some(ours)
    }

    /// Without the directory: what is mounted is the base.
    pub fn of(key: String, attributes: &HashMap<String, String>) -> Self {
        let base = attributes.iter().filter(|(name, _)| *name != SUB_DIRECTORY);
        Self { key, base: base.map(|(name, value)| (name.clone(), value.clone())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_id_says_where_the_base_is() {
        let key = "0123456789abcdef0123".to_owned();
        let rows = [
            base(&[("type", "sshfs"), ("source", "me@host:/data")]),
            base(&[("type", "sshfs"), ("source", "me@host:/da#ta %"), ("mountOptions", "port=22,x=\"a,b\"")]),
            base(&[("type", "x"), ("source", "ü"), ("image", "registry/x:1")]),
            base(&[("type", "x"), ("source", "y"), ("client", "z")]),
        ];
        for base in rows {
            let volume = Provisioned { key: key.clone(), base };
            let id = volume.id().unwrap();
            assert_eq!(Provisioned::parse(&id), Some(volume), "{id}");
        }
        let long = Provisioned { key, base: base(&[("type", "x"), ("source", &"y".repeat(120))]) };
        assert_eq!(long.id().unwrap_err().code(), tonic::Code::InvalidArgument);
    }

    #[test]
    fn ids_of_others_are_not_ours() {
        for id in
            ["data", "", "#", "0123456789abcdef0123", "0123456789abcdef0123#", "0123456789ABCDEF0123#x#y", "0123456789abcdef0123#x#y#"]
        {
            assert_eq!(Provisioned::parse(id), None, "{id:?}");
        }
        let six = "0123456789abcdef0123#a#b#c#d#e#f";
        assert_eq!(Provisioned::parse(six), None);
    }

    proptest::proptest! {
        #[test]
        fn what_is_taken_apart_is_put_together_again(id in "[0-9a-f]{20}(#[a-z%#0-9]{0,9}){0,6}") {
            if let Some(ours) = Provisioned::parse(&id) {
                proptest::prop_assert_eq!(ours.id().unwrap(), id);
            }
        }
    }
}
