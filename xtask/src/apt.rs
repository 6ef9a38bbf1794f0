//! Debian's packages: installs what is missing, and says which mirror this machine uses.

use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// Calls apt-get only if something is missing: on a prepared machine this takes milliseconds.
pub(crate) fn ensure_installed(packages: &[&str]) -> Result<()> {
    let missing = missing(packages)?;
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("installing {}", missing.join(" "));
    process::run(apt_get().arg("update"))?;
    process::run(apt_get().args(["install", "--yes", "--no-install-recommends"]).args(missing))
}

fn missing<'a>(packages: &[&'a str]) -> Result<Vec<&'a str>> {
    let query = Command::new("dpkg-query")
        .args(["--show", "--showformat=${Package} ${db:Status-Status}\n"])
        .args(packages)
        .output() // it fails when it does not know a package: that is an answer, too
        .context("cannot start dpkg-query: the tests run on Debian")?;
    let known = String::from_utf8_lossy(&query.stdout).into_owned();
    Ok(packages.iter().copied().filter(|name| !is_installed(&known, name)).collect())
}

fn is_installed(known: &str, name: &str) -> bool {
    known.lines().any(|line| line.split_once(' ') == Some((name, "installed")))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// The address from which apt takes the main archive of `suite`: whatever this machine's administrator chose.
pub(crate) fn mirror(suite: &str) -> Result<String> {
    let targets = process::output(Command::new("apt-get").args(["indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)"]))?;
    mirror_among(&targets, suite).with_context(|| format!("apt has no source for the main archive of {suite}"))
}

fn mirror_among(targets: &str, suite: &str) -> Option<String> {
    let wanted = format!("{suite} main ");
    targets.lines().find_map(|line| line.strip_prefix(&wanted)).map(|uri| uri.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_package_that_left_its_configuration_is_not_installed() {
        let known = "sshfs installed\ndavfs2 config-files\n";
        assert!(is_installed(known, "sshfs"));
        assert!(!is_installed(known, "davfs2"));
        assert!(!is_installed(known, "ssh"));
    }

    #[test]
    fn takes_the_mirror_of_the_suite_and_not_of_its_updates() {
        let targets = "bookworm-security main http://b.example/s/\nbookworm main http://a.example/debian/\n";
        assert_eq!(mirror_among(targets, "bookworm").as_deref(), Some("http://a.example/debian"));
        assert_eq!(mirror_among(targets, "trixie"), None);
    }
}
