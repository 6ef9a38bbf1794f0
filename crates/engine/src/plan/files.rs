//! In: a definition and a request. Out: the files that the client gets besides its image.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use shorefast_sandbox::spec::{self, Content, File};

use crate::definition::Definition;
use crate::options::Item;
use crate::plan::guest;
use crate::request::Request;

/// A file that the client gets besides its image.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct HostFile {
    pub inside: PathBuf,
    /// The host's, if there is one.
    pub host: Option<PathBuf>,
    /// What the client adds to it is for its next mounts, too.
    pub is_kept: bool,
}

/// Host files that a client needs to find servers.
const HOST_FILES: &[&str] = &[NAME_SERVERS, "/etc/hosts"];
const NAME_SERVERS: &str = "/etc/resolv.conf";

/// Files that the definition provides, and host files that a client needs to find servers.
pub(super) fn provided_files(definition: &Definition, request: &Request) -> impl Iterator<Item = File> {
    let provide = definition.provide.iter().map(|(path, provided)| File { inside: path.clone(), content: provided.content() });
    let provided = |path: &str| definition.provide.contains_key(Path::new(path));
    let from = |path: &str| request.name_servers.clone().filter(|_| path == NAME_SERVERS).unwrap_or_else(|| path.into());
    let of_host = HOST_FILES.iter().filter(move |path| !provided(path));
    provide.chain(of_host.map(move |path| File { inside: path.into(), content: Content::HostIfThere(from(path)) }))
}

pub(super) fn host_files(definition: &Definition) -> Vec<HostFile> {
    let inside: std::collections::BTreeSet<_> = definition.host_files.keys().chain(&definition.remember).collect();
    let file = |inside: &PathBuf| HostFile {
        inside: inside.clone(),
        host: definition.host_files.get(inside).cloned(),
        is_kept: definition.remember.contains(inside),
    };
    inside.into_iter().map(file).collect()
}

/// Options that name a host file get the path of the client's private copy.
pub(super) fn hand_over_files(items: Vec<Item>, definition: &Definition) -> (Vec<Item>, Vec<File>) {
    let mut files = Vec::new();
    let hand_over = |item: Item| {
        let Some(path) = guest::host_file(&item, definition) else { return item };
        let name = Path::new(path).file_name().unwrap_or(OsStr::new("file"));
        let inside = Path::new(spec::FILES).join(files.len().to_string()).join(name);
        let value = inside.to_string_lossy().into_owned();
        files.push(File { inside, content: Content::Host(path.into()) });
        Item { name: item.name, value: Some(value) }
    };
    let items = items.into_iter().map(hand_over).collect();
    (items, files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;

    #[test]
    fn a_file_option_names_the_copy() {
        let definition = crate::definition::parse("types = [\"x\"]\nfiles = [\"IdentityFile\"]").unwrap();
        let items = options::parse("IdentityFile=/root/.ssh/id,port=22,Other=/etc/x,IdentityFile=/dev/null").unwrap().items;
        let (items, files) = hand_over_files(items, &definition);
        assert_eq!(options::join(&items), "IdentityFile=/shorefast/files/0/id,port=22,Other=/etc/x,IdentityFile=/dev/null");
        assert_eq!(files.len(), 1);
        assert!(matches!(&files[0].content, Content::Host(path) if path == Path::new("/root/.ssh/id")));
    }
}
