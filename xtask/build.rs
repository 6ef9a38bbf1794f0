//! Compiles what is in `guest` on its own: it has to be free of std, and of this program, which embeds it.

use std::path::PathBuf;
use std::process::Command;

/// How a library is linked that comes in front of a libc.
const LIBRARY: &[&str] = &["--crate-type=cdylib", "-Copt-level=2", "-Clink-arg=-nostartfiles"];
/// How a program is that has none.
const PROGRAM: &[&str] = &["--crate-type=bin", "-Crelocation-model=static", "-Clink-args=-nostdlib -nostartfiles -static -no-pie"];

fn main() {
    compile("registers", LIBRARY);
    compile("nothing", PROGRAM);
}

fn compile(name: &str, kind: &[&str]) {
    let source = format!("guest/{name}.rs");
    println!("cargo::rerun-if-changed={source}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(name);
    let rustc = std::env::var_os("RUSTC").expect("cargo sets RUSTC");
    let target = std::env::var("TARGET").expect("cargo sets TARGET");
    let status = Command::new(rustc)
        .args(["--edition=2024", "--crate-name", name, "--target", &target, "-Cpanic=abort", "-Cstrip=symbols"])
        .args(kind)
        .arg("-o")
        .arg(&out)
        .arg(&source)
        .status()
        .expect("rustc runs");
    assert!(status.success(), "{source} does not compile");
}
