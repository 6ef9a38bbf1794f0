//! `shorefast doctor`: finds what was broken on purpose, and is not held up by what hangs.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use shorefast_tests::client::Request;
use shorefast_tests::processes::Process;
use shorefast_tests::{Client, Host, command};

fn finding(findings: &Value, subject: &str, words: &str) -> Value {
    let all = findings.as_array().expect("an array");
    let found = all.iter().find(|each| each["subject"] == subject && each["finding"].as_str().is_some_and(|text| text.contains(words)));
    found.unwrap_or_else(|| panic!("no finding about {subject} says {words:?}: {findings:#}")).clone()
}

#[test]
fn a_good_host_is_good_and_a_bad_type_is_bad() {
    let Some(host) = Host::new() else { return };
    let findings = host.shorefast(&["doctor", "--json"]).succeeds().json();
    for (subject, words) in [("kernel", "all that is needed"), ("fuse", "can be opened"), ("records", "written"), ("images", "written")] {
        assert_eq!(finding(&findings, subject, words)["verdict"], "good");
    }
    assert_eq!(finding(&findings, "propagation", "is private")["do"], "mount --make-rshared /var/lib");
    let said = host.shorefast(&["doctor", "nosuch"]).exits(2).stdout;
    assert!(said.contains("BAD      nosuch: no client definition lists the type"), "{said}");
    let findings = host.shorefast(&["doctor", "--json", "sshfs"]).succeeds().json();
    assert_eq!(finding(&findings, "sshfs", "is not here")["do"], "shorefast image pull 'packages:debian/trixie?sshfs'");
    if !fs::read_to_string("/proc/filesystems").expect("a list").contains("\tnfs\n") {
        let findings = host.shorefast(&["doctor", "--json", "nfs"]).exits(2).json();
        assert_eq!(finding(&findings, "nfs", "no filesystem nfs")["verdict"], "bad");
    }
    assert!(!std::path::Path::new("/var/lib/shorefast").exists(), "looking changes nothing");
}

#[test]
fn what_is_broken_is_named_with_its_remedy() {
    let Some(host) = Host::new() else { return };
    command::run(&["mount", "--bind", "/dev/null", "/dev/fuse"]);
    fs::write("/etc/resolv.conf", "nameserver 127.0.0.1\n").expect("/etc is the test's own");
    fs::create_dir_all("/etc/shorefast/clients.d").expect("/etc is the test's own");
    fs::write("/etc/shorefast/clients.d/x.toml", "typos = []").expect("/etc is the test's own");
    let findings = host.shorefast(&["doctor", "--json"]).exits(2).json();
    assert!(finding(&findings, "fuse", "not the FUSE device")["do"].as_str().is_some_and(|text| text.contains("mknod")));
    assert_eq!(finding(&findings, "names", "127.0.0.1")["verdict"], "warning");
    assert_eq!(finding(&findings, "clients", "x.toml")["verdict"], "bad");
}

#[test]
fn a_kubelet_is_recognized_by_its_command_line() {
    let Some(host) = Host::new() else { return };
    let program = host.path("kubelet");
    std::os::unix::fs::symlink("/bin/sh", &program).expect("the directory is the test's own");
    let kubelet = |flags: &[&str]| {
        // A program of that name, too.
        let mut command = Command::new(&program);
        command.arg0("kubelet").args(["-c", "read never"]).args(flags).stdin(Stdio::piped());
        let mut process = command.spawn().expect("a shell can be started");
        let findings = host.shorefast(&["doctor", "--json"]);
        process.kill().expect("it runs");
        process.wait().expect("it ran");
        findings
    };
    let mounter = host.path("k/mounter");
    let flag = format!("--experimental-mounter-path={}", mounter.display());
    finding(&kubelet(&["--v=2"]).succeeds().json(), "kubelet", "without --experimental-mounter-path");
    let absent = finding(&kubelet(&[&flag]).exits(2).json(), "kubelet", "cannot be executed");
    assert_eq!(absent["do"], "shorefast install --kubelet --to /srv/k");
    host.shorefast(&["install", "--kubelet", "--to", "/srv/k"]).succeeds();
    let findings = kubelet(&[&flag]).succeeds().json();
    finding(&findings, "kubelet", "mounts through /srv/k/mounter (/srv/k/shorefast)");
    finding(&findings, "kubelet", "did not write the cluster's name servers");
}

#[test]
fn a_hung_mount_of_somebody_else_is_not_touched() {
    let Some(host) = Host::new() else { return };
    let (source, target) = (host.directory("source"), host.directory("target"));
    let client = Client::named("bindfs");
    Request::new(&client, "bindfs", source, &target).sandboxed(&host).succeeds();
    let pid = host.list()[0]["pid"].as_u64().expect("a served mount has a daemon");
    let daemon = Process { pid: u32::try_from(pid).expect("a pid") };
    daemon.signal(Signal::STOP);
    let took = host.shorefast(&["doctor"]).succeeds().took;
    daemon.signal(Signal::CONT);
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn a_crowd_beside_the_images_is_told_with_what_helps() {
    let Some(host) = Host::new() else { return };
    host.gather_crowd("/var/lib/crowd", 1000);
    let findings = host.shorefast(&["doctor", "--json"]).succeeds().json();
    let crowd = finding(&findings, "images", "1000 mounts are on /var/lib");
    let (_, remedy) = crowd["do"].as_str().and_then(|text| text.split_once(": ")).expect("a command");
    assert_eq!(remedy, "mount --bind /var/lib/shorefast /var/lib/shorefast");
    fs::create_dir("/var/lib/shorefast").expect("/var/lib is the test's own");
    command::run(&remedy.split(' ').collect::<Vec<_>>());
    let said = host.shorefast(&["doctor"]).succeeds().stdout;
    assert!(!said.contains("1000 mounts"), "{said}");
}
