//! Compiles `shim/shim.rs` on its own into a static program of a few kilobytes; `src/shim.rs`
//! embeds it. A cargo binary target cannot be embedded into another on stable, so rustc is asked
//! directly.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=shim");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("shim");
    let rustc = std::env::var_os("RUSTC").expect("cargo sets RUSTC");
    let target = std::env::var("TARGET").expect("cargo sets TARGET");
    let status = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=bin", "--crate-name=shim", "--target", &target])
        .args(["-Cpanic=abort", "-Copt-level=s", "-Cstrip=symbols", "-Coverflow-checks=off"])
        // A fixed address and no dynamic section: nothing to relocate, so nothing to dirty.
        .args(["-Ctarget-feature=+crt-static", "-Crelocation-model=static"])
        .args(["-Clink-arg=-nostdlib", "-Clink-arg=-nostartfiles", "-Clink-arg=-static"])
        .args(["-Clink-arg=-Wl,--build-id=none,-z,norelro,--gc-sections", "-Clink-arg=-no-pie"])
        // musl's startup files come with rustc and are linked whatever one says; the linker that comes with it is glibc's only.
        .args(target.ends_with("musl").then_some("-Clink-self-contained=no"))
        // Cargo's choice, where it was told of one: for another architecture the machine's own does not do.
        .args(std::env::var("RUSTC_LINKER").ok().map(|linker| format!("-Clinker={linker}")))
        .arg("-o")
        .arg(&out)
        .arg("shim/shim.rs")
        .status()
        .expect("rustc runs");
    assert!(status.success(), "shim/shim.rs does not compile");
}
