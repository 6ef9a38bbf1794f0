//! For releases: tells the linker what to put side by side (`cargo xtask hot` writes that script), and asks it what it put where. An
//! ordinary build has neither.

use std::env;
use std::path::Path;

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
    // A variable that stays the same may name a file that does not.
    if let Some(script) = env::var_os(SCRIPT) {
        println!("cargo::rerun-if-changed={}", Path::new(&script).display());
    }
}
