//! In: the parameters of a StorageClass, and the name of a new volume. Out: how its base is mounted, and which directory of it the volume is.

use std::collections::HashMap;
use std::path::PathBuf;

use shorefast_worker::base::volume::is_plain;
use shorefast_worker::task::{OnDelete, key};
use tonic::Status;

use crate::volume::is_added_by_kubernetes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Attributes of the base.
    pub base: HashMap<String, String>,
    pub directory: PathBuf,
    pub on_delete: OnDelete,
    pub mode: u32,
}

/// Parameters that become attributes of the volume.
const ATTRIBUTES: [&str; 5] = ["type", "source", "mountOptions", "client", "image"];
const OTHERS: [&str; 3] = ["subDir", "onDelete", "directoryMode"];
/// What a subDir can name, and where the external provisioner says it.
const VARIABLES: [(&str, &str); 3] = [
    ("pvc.metadata.name", "csi.storage.k8s.io/pvc/name"),
    ("pvc.metadata.namespace", "csi.storage.k8s.io/pvc/namespace"),
    ("pv.metadata.name", "csi.storage.k8s.io/pv/name"),
];
/// Pods run as any user, and reach no other directory of the base.
const MODE: u32 = 0o777;

pub fn parse(name: &str, parameters: &HashMap<String, String>) -> Result<Parameters, Status> {
    let wrong = |text: String| Status::invalid_argument(format!("parameters: {text}"));
    let is_known = |key: &str| ATTRIBUTES.contains(&key) || OTHERS.contains(&key) || is_added_by_kubernetes(key);
    if let Some(unknown) = parameters.keys().find(|key| !is_known(key)) {
        return Err(wrong(format!("there is no {unknown:?}, but {}, {}", ATTRIBUTES.join(", "), OTHERS.join(", "))));
    }
    let given = |name: &str| parameters.get(name).map(String::as_str).filter(|value| !value.is_empty());
    let on_delete = match given("onDelete") {
        None | Some("delete") => OnDelete::Delete,
        Some("retain") => OnDelete::Retain,
        Some("archive") => OnDelete::Archive,
        Some(other) => return Err(wrong(format!("onDelete is delete, retain or archive, and not {other:?}"))),
    };
    let mode = match given("directoryMode") {
        None => MODE,
        Some(text) => u32::from_str_radix(text, 8)
            .ok()
            .filter(|mode| *mode <= 0o1777)
            .ok_or_else(|| wrong(format!("directoryMode is an octal number such as 0770, and not {text:?}")))?,
    };
    let directory = match given("subDir") {
        Some(template) => expand(template, parameters).map_err(wrong)?,
        None => plain_name(name),
    };
    let directory = PathBuf::from(directory);
    if !is_plain(&directory) {
        return Err(wrong(format!(
            "subDir becomes {directory:?}, which is no path below the source, without `.`, `..` and needless slashes"
        )));
    }
    let base = ATTRIBUTES.iter().filter_map(|name| Some(((*name).to_owned(), given(name)?.to_owned())));
    Ok(Parameters { base: base.collect(), directory, on_delete, mode })
}

fn expand(template: &str, parameters: &HashMap<String, String>) -> Result<String, String> {
    let (mut result, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once("${") {
        let (variable, after) = after.split_once('}').ok_or_else(|| format!("subDir {template:?} has a ${{ without a }}"))?;
        let known = || VARIABLES.map(|(name, _)| format!("${{{name}}}")).join(", ");
        let (_, parameter) = VARIABLES
            .iter()
            .find(|(name, _)| *name == variable)
            .ok_or_else(|| format!("subDir: there is no ${{{variable}}}, but {}", known()))?;
        let value = parameters
            .get(*parameter)
            .ok_or_else(|| format!("subDir: ${{{variable}}} is unknown (hint: the provisioner needs --extra-create-metadata)"))?;
        // One variable is one name: none leads to another directory than the administrator's.
        if value.is_empty() || value.contains('/') || value.starts_with('.') {
            return Err(format!("subDir: ${{{variable}}} is {value:?}, which is no name of a directory"));
        }
        result.push_str(before);
        result.push_str(value);
        rest = after;
    }
    Ok(result + rest)
}

/// The longest name of a directory, with room for another word when it is archived.
const LONGEST: usize = 200;

/// A volume's name as that of a directory. The external provisioner's are; others get a number instead.
fn plain_name(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.len() <= LONGEST && name.bytes().all(is_plain) && !name.starts_with('.') {
        name.to_owned()
    } else {
        format!("volume-{}", key(name.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(pairs: &[(&str, &str)]) -> Result<Parameters, Status> {
        let metadata = [
            ("csi.storage.k8s.io/pvc/name", "claim"),
            ("csi.storage.k8s.io/pvc/namespace", "team"),
            ("csi.storage.k8s.io/pv/name", "pvc-1"),
        ];
        let all = pairs.iter().chain(&metadata).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        parse("pvc-1", &all)
    }

    #[test]
    fn directories() {
        let rows = [
            ("", Some("pvc-1")),
            ("${pvc.metadata.namespace}/${pvc.metadata.name}", Some("team/claim")),
            ("x-${pv.metadata.name}-y", Some("x-pvc-1-y")),
            ("plain", Some("plain")),
            ("${pvc.metadata.uid}", None),
            ("${pvc.metadata.name", None),
            ("../${pvc.metadata.name}", None),
            ("/abs", None),
            ("a//b", None),
            (".shorefast/x", None),
        ];
        for (template, expected) in rows {
            let directory = parsed(&[("subDir", template)]).ok().map(|parameters| parameters.directory);
            assert_eq!(directory, expected.map(PathBuf::from), "{template}");
        }
        for value in ["..", "a/b", "", ".hidden"] {
            let all = HashMap::from([("csi.storage.k8s.io/pvc/name".to_owned(), value.to_owned())]);
            assert!(expand("x/${pvc.metadata.name}", &all).is_err(), "{value:?}");
        }
        for name in ["..", "a/b", ".x", "with space", &"x".repeat(300)] {
            let directory = plain_name(name);
            assert!(directory.starts_with("volume-") && is_plain(directory.as_ref()), "{name:?} {directory:?}");
        }
    }

    #[test]
    fn what_a_class_can_say() {
        let all = parsed(&[("type", "sshfs"), ("source", "a:/b"), ("onDelete", "archive"), ("directoryMode", "0750")]).unwrap();
        assert_eq!((all.on_delete, all.mode, all.base.len()), (OnDelete::Archive, 0o750, 2));
        assert_eq!(parsed(&[]).unwrap().mode, 0o777);
        for wrong in [("onDelete", "forget"), ("directoryMode", "888"), ("directoryMode", "4777"), ("sauce", "x")] {
            assert!(parsed(&[wrong]).is_err(), "{wrong:?}");
        }
    }
}
