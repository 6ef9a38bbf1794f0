//! sshfs as the catalogue has it: whom it trusts, and what it remembers of whom it trusted at first sight.

use std::fs;
use std::path::Path;

use shorefast_tests::client::Request;
use shorefast_tests::path::text;
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Client, Host, command};

const DEFINITION: &str = include_str!("../../../crates/engine/catalogue/sshfs.toml");
const REMEMBERED: &str = "/var/lib/shorefast/remembered/client/root/.ssh/known_hosts";
const ACCEPT_NEW: &str = ",StrictHostKeyChecking=accept-new";

/// Mounts and unmounts; `None`: ssh did not trust the server, and said so.
#[track_caller]
fn is_trusted(host: &Host, sshd: &Sshd, more: &str) -> bool {
    let client = Client::defined(host, "sshfs", DEFINITION);
    let target = host.directory("target");
    let request = Request::new(&client, "sshfs", sshd.source(), &target).options(sshd.careful_options() + more);
    let ran = request.sandboxed(host);
    if ran.code == Some(0) {
        host.shorefast(&["umount", text(&target)]).succeeds();
        return true;
    }
    ran.exits(32).says("Host key verification failed");
    false
}

/// Root's own files of this machine are not touched.
fn own_home() {
    fs::create_dir_all("/root/.ssh").expect("root may");
    command::run(&["mount", "-t", "tmpfs", "none", "/root/.ssh"]);
}

#[test]
fn a_server_that_nobody_knows_is_not_trusted() {
    let Some(host) = Host::new() else { return };
    own_home();
    let sshd = Sshd::start(&host);
    assert!(!is_trusted(&host, &sshd, ""));
    assert!(!Path::new(REMEMBERED).exists());
}

#[test]
fn a_server_that_the_host_knows_is_trusted_until_its_key_changes() {
    for file in ["/etc/ssh/ssh_known_hosts", "/root/.ssh/known_hosts"] {
        let Some(host) = Host::new() else { return };
        own_home();
        let sshd = Sshd::start(&host);
        fs::create_dir_all(Path::new(file).parent().expect("it has one")).expect("the test's own");
        fs::write(file, sshd.known_host()).expect("the test's own");
        assert!(is_trusted(&host, &sshd, ""), "{file}");
        let known = fs::read_to_string(file).expect("the test's own");
        let sshd = sshd.with_another_host_key(&host);
        assert!(!is_trusted(&host, &sshd, ""), "{file}");
        assert!(!is_trusted(&host, &sshd, ACCEPT_NEW), "{file}");
        assert_eq!(fs::read_to_string(file).expect("the test's own"), known, "the host's own file is not written");
        host.assert_nothing_left();
    }
}

#[test]
fn what_was_trusted_at_first_sight_is_remembered() {
    let Some(host) = Host::new() else { return };
    own_home();
    let sshd = Sshd::start(&host);
    assert!(is_trusted(&host, &sshd, ACCEPT_NEW));
    let remembered = fs::read_to_string(REMEMBERED).expect("it is remembered");
    assert_eq!(remembered.lines().count(), 1, "{remembered}");
    assert!(is_trusted(&host, &sshd, ""), "it is known by now");
    assert!(is_trusted(&host, &sshd, ACCEPT_NEW));
    assert_eq!(fs::read_to_string(REMEMBERED).expect("it is remembered"), remembered, "once");
    let sshd = sshd.with_another_host_key(&host);
    assert!(!is_trusted(&host, &sshd, ACCEPT_NEW));
    assert!(!is_trusted(&host, &sshd, ""));
    assert_eq!(fs::read_to_string(REMEMBERED).expect("it is remembered"), remembered);
    host.assert_nothing_left();
}
