//! Pods whose volume's server is dead, or whose client is frozen: they are gone soon after they were killed.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use shorefast_tests::processes::Process;
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Host, wait};

use crate::kubelet::{Kubelet, Volume};
use crate::silence::{in_container, servers, status};

/// From the kill of its containers to the end of its volumes.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_pod_on_a_dead_server_is_gone_in_time() {
    dead(|_| servers());
}

#[test]
fn a_pod_of_a_frozen_client_is_gone_in_time() {
    dead(|host| vec![Process { pid: host.wait_for_client("sshfs").pid }]);
}

fn dead(frozen: impl Fn(&Host) -> Vec<Process>) {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    host.settle();
    fs::write(server.share.join("file"), "content").expect("the server's own files");
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::sshfs(&host, "volume", &server);
    kubelet.stage(&volume).expect("it can be staged");
    let pods = ["reader", "sleeper"];
    for pod in pods {
        kubelet.publish(&volume, pod, false).expect("it can be published");
    }
    let mut sleeper = in_container(&kubelet.target("sleeper"), "exec sleep 1000");
    wait::until("the container", || (status(&sleeper, "Name") == "sleep").then_some(()));
    let frozen = frozen(&host);
    frozen.iter().for_each(|process| process.signal(Signal::STOP));
    let mut reader = in_container(&kubelet.target("reader"), "exec cat /mnt/file");
    wait::until("the reader to read", || (status(&reader, "Name") == "cat").then_some(()));
    // kubelet asks now and then, and must not be stopped by that either.
    kubelet.stats("volume", &kubelet.target("reader")).expect_err("nobody can know");

    let begun = Instant::now();
    for container in [&mut reader, &mut sleeper] {
        container.kill().expect("it runs");
    }
    for container in [&mut reader, &mut sleeper] {
        let ended = wait::within(SOON, || container.try_wait().expect("our own child"));
        assert!(ended.is_some(), "still there: {}", Process { pid: container.id() }.describe());
    }
    let containers = begun.elapsed();
    // Once is enough: kubelet waits before it tries again.
    for pod in pods {
        kubelet.unpublish(&volume, pod).expect("it can be unpublished");
    }
    let unpublished = begun.elapsed();
    kubelet.unstage(&volume).expect("it can be unstaged");
    let took = begun.elapsed();
    println!("containers gone after {containers:?}, unpublished after {unpublished:?}, unstaged after {took:?}");
    assert!(took < SOON, "containers gone after {containers:?}, unpublished after {unpublished:?}, unstaged after {took:?}");
    frozen.iter().for_each(|process| process.signal(Signal::CONT));
    drop(kubelet);
    host.assert_nothing_left();
}
