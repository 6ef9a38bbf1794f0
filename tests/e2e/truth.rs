//! What one can rely on: `umount` says whether the client wrote back what it had, and a client knows its server.

#[path = "truth/past.rs"]
mod past;
#[path = "truth/reasons.rs"]
mod reasons;
#[path = "truth/syslog.rs"]
mod syslog;
#[path = "truth/archives.rs"]
mod archives;
#[path = "truth/host_keys.rs"]
mod host_keys;

use std::fs;

use shorefast_tests::client::Request;
use shorefast_tests::path::text;
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Client, Host, command, mountinfo};

/// A client that serves, and fails when it ends: `$3` is the shell command by which it ends. It has another child that fails, too, and that
/// says nothing about the mount.
const FOREGROUND: &str = r#"(sleep 0.1; exit 7) & bindfs -f "$1" "$2"; echo "cannot write back: the disk is full" >&2; eval "$3""#;
/// The same for a helper that ends and leaves the rest to a process of its own.
const FORKS: &str = r#"
(bindfs -f "$1" "$2"; echo "cannot write back: the disk is full" >&2; eval "$3") &
until grep -q " $2 fuse" /proc/self/mounts; do sleep 0.01; done
"#;

fn client(host: &Host, script: &str, daemon: &str, last: &str) -> Client {
    let words = ["sh", "-c", script, "sh", "{source}", "{target}", last].map(|word| toml::Value::String(word.to_owned()).to_string());
    let definition = format!(
        "types = [\"script\"]\nkernel_types = [\"fuse\"]\nsource = \"path\"\ndaemon = \"{daemon}\"\ncommand = [{}]\n",
        words.join(", ")
    );
    Client::defined(host, "bindfs", &definition)
}

#[test]
fn a_client_that_fails_while_it_ends_makes_umount_fail() {
    let rows = [
        (FOREGROUND, "foreground", "exit 5", Some("exit status 5")),
        (FOREGROUND, "foreground", "kill -ABRT $$", Some("killed by signal 6")),
        (FOREGROUND, "foreground", "exit 0", None),
        (FORKS, "forks", "exit 5", Some("exit status 5")),
        (FORKS, "forks", "exit 0", None),
    ];
    for (script, daemon, last, expected) in rows {
        let Some(host) = Host::new() else { return };
        let client = client(&host, script, daemon, last);
        let (source, target) = (host.directory("source"), host.directory("target"));
        let request = Request::new(&client, "script", &source, &target);
        request.sandboxed(&host).succeeds();
        let ended = host.shorefast(&["umount", text(&target)]);
        match expected {
            None => drop(ended.succeeds()),
            Some(status) => drop(ended.exits(32).says(status).says("cannot write back: the disk is full").says("is unmounted")),
        }
        assert_eq!(mountinfo::at(&target), [], "{last}");
        host.assert_nothing_left();
    }
}

#[test]
fn umount_of_the_mount_helper_says_it_too() {
    let Some(host) = Host::new() else { return };
    let client = client(&host, FOREGROUND, "foreground", "exit 5");
    let (source, target) = (host.directory("source"), host.directory("target"));
    Request::new(&client, "script", &source, &target).sandboxed(&host).succeeds();
    let helper = host.path("umount.script");
    std::os::unix::fs::symlink(host.binary(), &helper).expect("the test's own");
    let mut words = std::process::Command::new(&helper);
    words.arg(&target);
    drop(command::finish(words).exits(32).says("exit status 5").says("the disk is full"));
    host.assert_nothing_left();
}

#[test]
fn a_forced_umount_is_no_failure_of_the_client() {
    let Some(host) = Host::new() else { return };
    let client = client(&host, FOREGROUND, "foreground", "sleep 60");
    let (source, target) = (host.directory("source"), host.directory("target"));
    Request::new(&client, "script", &source, &target).sandboxed(&host).succeeds();
    host.shorefast(&["umount", "--force", text(&target)]).succeeds();
    host.assert_nothing_left();
}

/// sshfs leaves ssh to the sandbox's first process; how that one ends says nothing.
#[test]
fn sshfs_ends_well() {
    let Some(host) = Host::new() else { return };
    let sshd = Sshd::start(&host);
    let client = Client::named("sshfs");
    let target = host.directory("target");
    let request = Request::new(&client, "sshfs", sshd.source(), &target).options(sshd.options());
    request.sandboxed(&host).succeeds();
    fs::write(target.join("file"), "x").expect("it is served");
    host.shorefast(&["umount", text(&target)]).succeeds();
    host.assert_nothing_left();
}
