//! Tells the linker what to put side by side (see `cargo xtask hot`). It only makes mounts faster: a linker that does not read such
//! scripts is not asked.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=hot.ld");
    println!("cargo::rerun-if-changed=build.rs");
    let script = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("hot.ld");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--script={}", script.display());
    }
}
