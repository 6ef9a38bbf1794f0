//! The house's walls: which crate may use which, and which module. A picture in a document is true as long as this passes.

use std::fs;
use std::path::{Path, PathBuf};

/// Each crate, and the crates of ours that it may use.
const WALLS: [(&str, &[&str]); 8] = [
    ("sys", &[]),
    ("net", &[]),
    ("broker", &["sys"]),
    ("sandbox", &["sys"]),
    ("packages", &["net"]),
    ("image", &["net", "packages"]),
    ("engine", &["broker", "image", "sandbox", "sys"]),
    ("shorefast", &["broker", "engine", "image", "sandbox", "sys"]),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")
}

#[test]
fn crates_use_only_what_is_below_them() {
    for (name, allowed) in WALLS {
        let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).expect("a crate has a manifest");
        let dependencies = manifest.lines().filter_map(|line| line.strip_prefix("shorefast-")?.split(['.', ' ']).next());
        for dependency in dependencies {
            assert!(allowed.contains(&dependency), "{name} uses {dependency}");
        }
    }
}

#[test]
fn unsafe_is_said_in_one_crate_only() {
    for (name, _) in WALLS.iter().filter(|(name, _)| *name != "sys") {
        for (path, text) in sources(name) {
            assert!(!text.contains("unsafe {") && !text.contains("unsafe fn"), "{path:?}");
        }
    }
}

#[test]
fn modules_use_only_those_listed_after_them() {
    for (name, _) in WALLS.iter().filter(|(name, _)| *name != "shorefast") {
        let library = fs::read_to_string(crates().join(name).join("src/lib.rs")).expect("a crate has a library");
        let modules: Vec<_> = library.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
        assert!(!modules.is_empty(), "{name} lists no modules");
        for (path, text) in sources(name) {
            let own = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let Some(position) = modules.iter().position(|module| *module == own) else { continue };
            // Tests and comments may look around; what ships may not.
            let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
            for line in shipped.lines().filter(|line| !line.trim_start().starts_with("//")) {
                let earlier = modules[..position].iter().find(|earlier| mentions(line, earlier));
                assert_eq!(earlier, None, "{name}: {own} uses what is listed before it: {line}");
            }
        }
    }
}

/// `crate::name::…`, or `name` in `use crate::{…}`.
fn mentions(line: &str, module: &str) -> bool {
    let in_list = |list: &str| list.split([',', '}', ';', ' ']).any(|word| word == module || word.starts_with(&format!("{module}::")));
    line.contains(&format!("crate::{module}::")) || line.trim_start().strip_prefix("use crate::{").is_some_and(in_list)
}

fn sources(name: &str) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(crates().join(name).join("src")).expect("a crate has sources");
    let paths =
        entries.map(|entry| entry.expect("a readable directory").path()).filter(|path| path.extension().is_some_and(|end| end == "rs"));
    paths.map(|path| (path.clone(), fs::read_to_string(path).expect("a source is text"))).collect()
}
