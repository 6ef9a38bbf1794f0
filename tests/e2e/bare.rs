//! Out of the box: the binary alone, on a host that has nothing else (`shorefast_tests::bare`).

use std::fs;
use std::process::Command;

use shorefast_tests::bare::{self, ARCHIVE, BINARY, DATA};
use shorefast_tests::{Host, Ran, command};

const STORE: [&str; 4] = ["--root", "/data/images", "--run-dir", "/data/run"];

fn shorefast(words: &[&str]) -> Ran {
    let mut command = Command::new(BINARY);
    command.args(STORE).args(words).env_clear();
    command::finish(command)
}

/// The machine's own archive in the place of Debian's: one line says where, another who signs it.
fn use_the_machines_archive() {
    fs::create_dir_all("/etc/shorefast").expect("the test's own root");
    let configuration = format!("mirrors = [\"file:{ARCHIVE}\"]\nkeyring = \"{ARCHIVE}/key.gpg\"\n");
    fs::write("/etc/shorefast/packages.toml", configuration).expect("the test's own root");
}

#[test]
fn a_client_of_the_catalogue_mounts_on_a_host_that_has_nothing() {
    let Some(host) = Host::new() else { return };
    bare::enter(&host);
    use_the_machines_archive();
    let source = format!("{DATA}/source");
    fs::create_dir(&source).expect("the one directory that can be written to");
    fs::write(format!("{source}/file"), "content").expect("the one directory that can be written to");
    shorefast(&["mount", "-t", "bindfs", &source, "/mnt"]).succeeds();
    assert_eq!(fs::read_to_string("/mnt/file").expect("it is served"), "content");
    shorefast(&["umount", "/mnt"]).succeeds();
    let found = shorefast(&["doctor"]).stdout;
    assert!(found.contains("packages come from file:/archive") && found.contains("it answers"), "{found}");
}

#[test]
fn the_demo_runs_on_a_host_that_has_nothing() {
    let Some(host) = Host::new() else { return };
    bare::enter(&host);
    use_the_machines_archive();
    let shown = shorefast(&["demo"]).succeeds().stdout;
    assert!(shown.contains("nothing is left"), "{shown}");
}

#[test]
fn without_configuration_debians_own_archive_and_keys_are_used() {
    let Some(host) = Host::new() else { return };
    bare::enter(&host);
    // This test's network leads nowhere, so what is named is all that there is to see.
    let found = shorefast(&["doctor", "sshfs"]).stdout;
    assert!(found.contains("http://deb.debian.org/debian") && found.contains("keys that are built in"), "{found}");
    // One line pins a mirror or a snapshot of a day.
    fs::create_dir_all("/etc/shorefast").expect("the test's own root");
    let line = "mirrors = [\"http://127.0.0.1:9/archive/debian/20260901T000000Z\"]\n";
    fs::write("/etc/shorefast/packages.toml", line).expect("the test's own root");
    let said = shorefast(&["mount", "-t", "bindfs", DATA, "/mnt"]).exits(32);
    assert!(said.stderr.contains("http://127.0.0.1:9/archive/debian/20260901T000000Z/dists/"), "{}", said.stderr);
    assert!(said.stderr.contains("hint: "), "{}", said.stderr);
    // Whoever signs with another key is not believed.
    let line = format!("mirrors = [\"file:{ARCHIVE}\"]\n");
    fs::write("/etc/shorefast/packages.toml", line).expect("the test's own root");
    let said = shorefast(&["mount", "-t", "bindfs", DATA, "/mnt"]).exits(32);
    assert!(said.stderr.contains("which the keyring does not hold"), "{}", said.stderr);
}
