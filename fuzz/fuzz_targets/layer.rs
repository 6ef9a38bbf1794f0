//! Layers of an image: whatever they hold, nothing outside of their directory changes, and nothing inside is worth anything outside.
//!
//! An input is an archive as it is, or a short form of several: a header has 512 bytes with a checksum, which chance never finds.

#![no_main]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use shorefast_image::Limits;
use shorefast_image::layers::{Rules, Unpacking};

const LIMITS: Limits =
    Limits { bytes: 1 << 20, entries: 200, layers: 8, header_bytes: 8192, xattr_bytes: 1024, path_bytes: 4095, nesting: 32 };

/// A directory in memory: `root` is unpacked into, `outside` must not change.
static HOME: LazyLock<Home> = LazyLock::new(Home::new);

struct Home {
    path: PathBuf,
    canaries: Vec<(PathBuf, Seen)>,
}

/// Whatever is done to a file, one of these changes.
type Seen = (u64, u64, u32, i64, i64);

impl Home {
    fn new() -> Self {
        let path = Path::new("/dev/shm").join(format!("shorefast-fuzz-{}", std::process::id()));
        fs::create_dir_all(path.join("outside/directory")).expect("a directory in memory");
        fs::write(path.join("outside/canary"), "sings").expect("a file in memory");
        let canaries = ["outside", "outside/directory", "outside/canary"].map(|name| path.join(name));
        Self { canaries: canaries.into_iter().map(|path| (path.clone(), seen(&path))).collect(), path }
    }

    fn check(&self) {
        for (path, before) in &self.canaries {
            assert_eq!(seen(path), *before, "{path:?} was touched");
        }
        let names = fs::read_dir(&self.path).expect("our own directory").count();
        assert_eq!(names, 2, "something lies beside the root");
    }
}

fn seen(path: &Path) -> Seen {
    let metadata = fs::symlink_metadata(path).expect("a canary");
    (metadata.ino(), metadata.nlink(), metadata.mode(), metadata.ctime(), metadata.ctime_nsec())
}

fuzz_target!(|input: &[u8]| {
    let root = HOME.path.join("root");
    fs::create_dir(&root).expect("the root is gone after each run");
    let mut unpacking = Unpacking::into(&root, LIMITS).expect("a directory");
    let rules = [Rules::Layer, Rules::Plain, Rules::Package][usize::from(input.first().copied().unwrap_or(0)) % 3];
    for layer in layers(input) {
        if unpacking.apply(layer.as_slice(), rules, |_| true).is_err() {
            break;
        }
    }
    drop(unpacking);
    HOME.check();
    assert!(harmless(&root) <= LIMITS.bytes + (LIMITS.entries << 12), "more than the limit");
    fs::remove_dir_all(&root).expect("what was unpacked can be removed");
});

/// Bytes taken below `path`; panics at what must not be in an image.
fn harmless(path: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(path).expect("a directory that was unpacked") {
        let path = entry.expect("an entry").path();
        let metadata = fs::symlink_metadata(&path).expect("a file that was unpacked");
        let kind = metadata.file_type();
        assert!(kind.is_dir() || kind.is_file() || kind.is_symlink(), "{path:?} is special");
        assert!(metadata.mode() & 0o6000 == 0, "{path:?} is set-uid");
        bytes += metadata.blocks() * 512;
        if kind.is_dir() {
            bytes += harmless(&path);
        }
    }
    bytes
}

/// The second byte says which form the rest has.
fn layers(input: &[u8]) -> Vec<Vec<u8>> {
    match input.get(1) {
        Some(0) => vec![input[2..].to_vec()],
        Some(_) => expanded(&input[2..]),
        None => Vec::new(),
    }
}

/// A type, then a name, a target and a content, each after its length. Type zero begins the next layer.
fn expanded(mut input: &[u8]) -> Vec<Vec<u8>> {
    let mut layers = vec![Vec::new()];
    while let [kind, rest @ ..] = input {
        input = rest;
        if *kind == 0 {
            layers.push(Vec::new());
            continue;
        }
        let mut take = |most: usize| {
            let length = usize::from(input.first().copied().unwrap_or(0)).min(most).min(input.len().saturating_sub(1));
            let (part, rest) = input.get(1..).unwrap_or_default().split_at(length);
            input = rest;
            part
        };
        let (name, target, content) = (take(100), take(100), take(255));
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name);
        header[100..108].copy_from_slice(b"0007777\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
        header[148..156].copy_from_slice(b"        ");
        header[156] = *kind;
        header[157..157 + target.len()].copy_from_slice(target);
        header[257..265].copy_from_slice(if kind.is_ascii_uppercase() { b"ustar  \0" } else { b"ustar\x0000" });
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let layer = layers.last_mut().expect("there is always one");
        layer.extend_from_slice(&header);
        layer.extend_from_slice(content);
        layer.resize(layer.len().next_multiple_of(512), 0);
    }
    layers
}
