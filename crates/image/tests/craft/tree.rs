//! A snapshot of a directory tree, to compare with another tree or with a later snapshot.

#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use shorefast_image::Digest;

/// The attributes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// `f`, `d`, `l`, `c`, `b`, `p`
    pub(crate) kind: char,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) mtime: (i64, i64),
    pub(crate) size: u64,
    pub(crate) content: Option<Digest>,
    pub(crate) target: Option<PathBuf>,
    pub(crate) xattrs: BTreeMap<String, Vec<u8>>,
    /// All names of the same file, if there are several.
    pub(crate) links: Vec<PathBuf>,
    pub(crate) blocks: u64,
}

/// Everything below `root`, by path relative to it.
pub(crate) fn of(root: &Path) -> BTreeMap<PathBuf, Node> {
    let mut nodes = BTreeMap::new();
    let mut inodes: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
    walk(root, Path::new(""), &mut nodes, &mut inodes);
    for paths in inodes.into_values().filter(|paths| paths.len() > 1) {
        for path in &paths {
            nodes.get_mut(path).expect("a path that was walked").links = paths.clone();
        }
    }
    nodes
}

fn walk(root: &Path, below: &Path, nodes: &mut BTreeMap<PathBuf, Node>, inodes: &mut BTreeMap<u64, Vec<PathBuf>>) {
    let mut names: Vec<_> = fs::read_dir(root.join(below)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    for name in names {
        let path = below.join(name);
        let full = root.join(&path);
        let metadata = fs::symlink_metadata(&full).unwrap();
        let is_directory = metadata.is_dir();
        if !is_directory {
            inodes.entry(metadata.ino()).or_default().push(path.clone());
        }
        let kind = match metadata.mode() & 0o170000 {
            0o040000 => 'd',
            0o100000 => 'f',
            0o120000 => 'l',
            0o020000 => 'c',
            0o060000 => 'b',
            0o010000 => 'p',
            _ => '?',
        };
        let node = Node {
            kind,
            mode: metadata.mode() & 0o7777,
            owner: (metadata.uid(), metadata.gid()),
            mtime: (metadata.mtime(), metadata.mtime_nsec()),
            size: if is_directory { 0 } else { metadata.size() },
            content: (kind == 'f' && metadata.size() < 64 << 20).then(|| Digest::of(&fs::read(&full).unwrap())),
            target: (kind == 'l').then(|| fs::read_link(&full).unwrap()),
            xattrs: xattrs(&full),
            links: Vec::new(),
            blocks: if is_directory { 0 } else { metadata.blocks() },
        };
        nodes.insert(path.clone(), node);
        if is_directory {
            walk(root, &path, nodes, inodes);
        }
    }
}

fn xattrs(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 64 << 10];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 64 << 10];
        let length = rustix::fs::lgetxattr(path, std::ffi::OsStr::from_bytes(name), &mut value[..]).unwrap_or(0);
        (String::from_utf8_lossy(name).into_owned(), value[..length].to_vec())
    };
    names.map(value).collect()
}
