//! Running other programs: a failed one is an error that shows its command line and what it said.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// cargo, as if it were called by hand. What `cargo xtask` is told of its own package would make build scripts that look at it (ring's) run
/// again, and with them all that is built on those.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new("cargo");
    let of_package =
        |name: &OsString| name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
    for name in std::env::vars_os().map(|(name, _)| name).filter(of_package) {
        command.env_remove(name);
    }
    command
}

/// Runs quietly; what the program printed is shown only if it failed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// Runs with our own stdout and stderr.
pub(crate) fn show(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot start {}", line(command)))?;
    if !status.success() {
        bail!("{}: {status}", line(command));
    }
    Ok(())
}

pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {}", line(command)))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("{}: {}\n{}", line(command), output.status, String::from_utf8_lossy(&said).trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{}: its output is not text", line(command)))
}

/// Is there such a program on the PATH?
pub(crate) fn exists(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(program).is_file()))
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
