//! Embeds man pages and completions, for `install`. For releases: tells the linker what to put side by side (`cargo xtask hot` writes that
//! script), and asks it what it put where. An ordinary build has neither.

use std::path::{Path, PathBuf};
use std::{env, fs};

const MAP: &str = "SHOREFAST_LINK_MAP";
const SCRIPT: &str = "SHOREFAST_LINK_SCRIPT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for (variable, option) in [(MAP, "-Map"), (SCRIPT, "--script")] {
        println!("cargo::rerun-if-env-changed={variable}");
        if let Some(path) = env::var_os(variable) {
            println!("cargo::rustc-link-arg-bins=-Wl,{option}={}", Path::new(&path).display());
        }
    }
    embed_manual();
    // A variable that stays the same may name a file that does not.
    if let Some(script) = env::var_os(SCRIPT) {
        println!("cargo::rerun-if-changed={}", Path::new(&script).display());
    }
}

fn embed_manual() {
    let documents = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../docs");
    let mut files: Vec<PathBuf> = Vec::new();
    for directory in ["man", "completions"].map(|name| documents.join(name)) {
        println!("cargo::rerun-if-changed={}", directory.display());
        let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.sort();
    let row = |path: &PathBuf| format!("({:?}, include_bytes!({path:?}) as &[u8]),", path.file_name().unwrap_or_default());
    let list: String = files.iter().map(row).collect();
    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join("manual.rs");
    fs::write(out, format!("&[{list}]")).expect("the output directory can be written to");
}
