//! Compiles `guest/registers.rs` on its own into a library that `src/guest.rs` embeds: it has to be free of std, and of this program.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=guest/registers.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("registers.so");
    let rustc = std::env::var_os("RUSTC").expect("cargo sets RUSTC");
    let target = std::env::var("TARGET").expect("cargo sets TARGET");
    let status = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=registers", "--target", &target])
        .args(["-Cpanic=abort", "-Copt-level=2", "-Cstrip=symbols", "-Clink-arg=-nostartfiles"])
        .arg("-o")
        .arg(&out)
        .arg("guest/registers.rs")
        .status()
        .expect("rustc runs");
    assert!(status.success(), "guest/registers.rs does not compile");
}
