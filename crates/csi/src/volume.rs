//! In: what a PersistentVolume, StorageClass or pod says about a volume. Out: a request to the engine.

use std::collections::HashMap;
use std::path::PathBuf;

use shorefast_engine::mode::Mode;
use shorefast_engine::options;
use shorefast_engine::request::{Author, ClientChoice, Request};
use shorefast_worker::base::volume::is_plain;
use tonic::Status;

use crate::labels::LABELS;

/// Who may set an attribute.
const ATTRIBUTES: [(&str, Author); 6] = [
    ("type", Author::Guest),
    ("source", Author::Guest),
    ("mountOptions", Author::Guest),
    ("image", Author::Administrator),
    ("client", Author::Administrator),
    (SUB_DIRECTORY, Author::Administrator),
];

/// The directory of the mount that is the volume.
pub const SUB_DIRECTORY: &str = "subDir";

/// Attributes that Kubernetes adds by itself.
pub(crate) fn is_added_by_kubernetes(name: &str) -> bool {
    ["csi.storage.k8s.io/", "storage.kubernetes.io/"].iter().any(|prefix| name.starts_with(prefix))
}

/// Set by kubelet for a volume that a pod's author wrote into the pod.
pub const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";

/// All but the target, the deadline and the secrets. `flags`: options of the volume's capability.
pub fn request(volume: &str, context: &HashMap<String, String>, flags: &[String], author: Author) -> Result<Request, Status> {
    sub_directory(context)?;
    for key in context.keys().filter(|key| !is_added_by_kubernetes(key)) {
        check(key, author)?;
    }
    let attribute = |name: &str| context.get(name).filter(|value| !value.is_empty()).cloned();
    let needed = |name: &str| attribute(name).ok_or_else(|| Status::invalid_argument(format!("volumeAttributes: {name:?} is missing")));
    let given = attribute("mountOptions").unwrap_or_default();
    if author == Author::Guest {
        check_options(&given)?;
    }
    let all: Vec<_> = [&given].into_iter().chain(flags).filter(|options| !options.is_empty()).map(String::as_str).collect();
    Ok(Request {
        fstype: Some(needed("type")?),
        options: all.join(","),
        client: attribute("client").map_or(ClientChoice::ByType, ClientChoice::Named),
        image: attribute("image"),
        // Never mount(8): that would mount any device or directory of the host.
        mode: Some(Mode::Container),
        label: Some(volume.to_owned()),
        author,
        ..Request::new(needed("source")?, "")
    })
}

/// `None`: all of it.
pub fn sub_directory(context: &HashMap<String, String>) -> Result<Option<PathBuf>, Status> {
    let given = context.get(SUB_DIRECTORY).filter(|value| !value.is_empty()).map(PathBuf::from);
    match given {
        Some(directory) if !is_plain(&directory) => Err(Status::invalid_argument(format!(
            "volumeAttributes: {SUB_DIRECTORY:?} is no path below the source, without `.`, `..` and needless slashes"
        ))),
        given => Ok(given),
    }
}

fn check(key: &str, author: Author) -> Result<(), Status> {
    match ATTRIBUTES.iter().find(|(name, _)| *name == key) {
        Some((_, Author::Administrator)) if author == Author::Guest => Err(Status::permission_denied(format!(
            "volumeAttributes: {key:?} is not for a volume that a pod's author writes (hint: an administrator can set it in a PersistentVolume or StorageClass)"
        ))),
        Some(_) => Ok(()),
        None => {
            let names: Vec<_> = ATTRIBUTES.iter().map(|(name, _)| *name).collect();
            Err(Status::invalid_argument(format!("volumeAttributes: there is no {key:?}, but {}", names.join(", "))))
        }
    }
}

/// Options that change what the host does with the mount, and not only what the client does.
const ADMINISTRATORS: [&str; 2] = ["dev", "suid"];

fn check_options(text: &str) -> Result<(), Status> {
    let names = options::names(text).map_err(|error| Status::invalid_argument(error.to_string()))?;
    match names.iter().find(|name| ADMINISTRATORS.iter().chain(&LABELS).any(|one| one == name)) {
        Some(name) => Err(Status::permission_denied(format!("mountOptions: {name:?} is not for a volume that a pod's author writes"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn asked(author: Author, attributes: &[(&str, &str)]) -> Result<Request, Code> {
        let context = attributes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        request("v", &context, &["noatime".to_owned()], author).map_err(|status| status.code())
    }

    #[test]
    fn attributes_are_for_those_who_may_set_them() {
        let (root, guest) = (Author::Administrator, Author::Guest);
        let base = [("type", "sshfs"), ("source", "a:/b")];
        let with = |more: &[(&'static str, &'static str)]| [&base[..], more].concat();
        let rows = [
            (root, with(&[]), None),
            (guest, with(&[("mountOptions", "port=1,ro"), (EPHEMERAL, "true")]), None),
            (root, with(&[("image", "dir:/x"), ("client", "y")]), None),
            (guest, with(&[("image", "dir:/x")]), Some(Code::PermissionDenied)),
            (guest, with(&[("client", "y")]), Some(Code::PermissionDenied)),
            (guest, with(&[("mountOptions", "suid")]), Some(Code::PermissionDenied)),
            (guest, with(&[("mountOptions", "a,context=\"x,y\"")]), Some(Code::PermissionDenied)),
            (root, with(&[("mountOptions", "suid,dev")]), None),
            (root, with(&[("subDir", "a/b")]), None),
            (root, with(&[("subDir", "../b")]), Some(Code::InvalidArgument)),
            (guest, with(&[("subDir", "a")]), Some(Code::PermissionDenied)),
            (root, with(&[("sorce", "x")]), Some(Code::InvalidArgument)),
            (root, vec![("type", "sshfs")], Some(Code::InvalidArgument)),
            (root, vec![("source", "x")], Some(Code::InvalidArgument)),
            (guest, with(&[("mountOptions", "a=\"")]), Some(Code::InvalidArgument)),
        ];
        for (author, attributes, expected) in rows {
            assert_eq!(asked(author, &attributes).err(), expected, "{author:?} {attributes:?}");
        }
        let both = asked(root, &with(&[("mountOptions", "port=1")])).unwrap();
        assert_eq!((both.options.as_str(), both.mode), ("port=1,noatime", Some(Mode::Container)));
    }
}
