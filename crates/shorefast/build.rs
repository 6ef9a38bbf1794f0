//! Tells the linker what to put side by side (see `cargo xtask hot`). It only makes mounts faster: a linker that does not read such
//! scripts is not asked. And, for `cargo xtask hot`, asks it what it put where.

use std::env;
use std::path::Path;

const MAP: &str = "SHOREFAST_LINK_MAP";

fn main() {
    println!("cargo::rerun-if-changed=hot.ld");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={MAP}");
    let script = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("hot.ld");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--script={}", script.display());
        if let Some(map) = env::var_os(MAP) {
            println!("cargo::rustc-link-arg-bins=-Wl,-Map={}", Path::new(&map).display());
        }
    }
}
