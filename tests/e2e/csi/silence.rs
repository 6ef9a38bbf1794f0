//! Containers that are killed while they wait for a server that says nothing.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use shorefast_tests::processes::{self, Process};
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Host, wait};

use crate::kubelet::{Kubelet, Volume, text};

/// As a container has it: a mount namespace of its own, with the volume at another place.
pub(crate) fn in_container(volume: &Path, script: &str) -> Child {
    let script = format!("mount --bind {} /mnt && cd / && {script}", text(volume));
    let words = ["--mount", "--propagation=private", "sh", "-c", &script];
    Command::new("unshare").args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("unshare is there")
}

pub(crate) fn status(child: &Child, field: &str) -> String {
    Process { pid: child.id() }.status(field).unwrap_or_default()
}

/// Killed, and not gone: in the kernel, for an answer.
fn waits(child: &Child) -> bool {
    status(child, "State").starts_with('D')
}

/// The server and its connections.
pub(crate) fn servers() -> Vec<Process> {
    let is_server = |process: &Process| process.status("Name").is_some_and(|name| name.starts_with("sshd"));
    let servers: Vec<_> = processes::on_this_network().into_iter().filter(is_server).collect();
    assert!(servers.len() > 1, "{servers:?}");
    servers
}

/// Longer than the driver watches a client, with its looks before.
const WATCHED: Duration = Duration::from_secs(15);
/// What kubelet gives a pod.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn killed_users_of_a_silent_server_are_let_go_and_living_ones_wait() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    host.settle();
    fs::write(server.share.join("file"), "content").expect("the server's own files");
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::sshfs(&host, "volume", &server);
    kubelet.stage(&volume).expect("it can be staged");
    for pod in ["one", "other"] {
        kubelet.publish(&volume, pod, false).expect("it can be published");
    }
    let client = host.wait_for_client("sshfs");
    let mut lives = in_container(&kubelet.target("other"), "exec sleep 1000");
    let servers = servers();
    servers.iter().for_each(|server| server.signal(Signal::STOP));
    let mut reader = in_container(&kubelet.target("one"), "exec cat /mnt/file");
    wait::until("the reader to read", || (status(&reader, "Name") == "cat").then_some(()));
    std::thread::sleep(Duration::from_millis(500));
    reader.kill().expect("it runs");
    std::thread::sleep(WATCHED);
    assert!(waits(&reader), "somebody lives who wants this server's answers: {}", status(&reader, "State"));
    assert_eq!(host.wait_for_client("sshfs"), client);
    lives.kill().and_then(|()| lives.wait()).expect("it runs");
    let ended = wait::within(SOON, || reader.try_wait().expect("our own child"));
    assert!(ended.is_some(), "still waiting: {}", Process { pid: reader.id() }.describe());
    // As kubelet does next, with the server as silent as before.
    for pod in ["one", "other"] {
        kubelet.unpublish(&volume, pod).expect("it can be unpublished");
    }
    kubelet.unstage(&volume).expect("it can be unstaged");
    servers.iter().for_each(|server| server.signal(Signal::CONT));
    drop(kubelet);
    host.assert_nothing_left();
}
