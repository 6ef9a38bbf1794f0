//! What the driver counts.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;
use shorefast_tests::processes::Process;
use shorefast_tests::{Host, wait};

use crate::kubelet::{Kubelet, Volume};
use crate::open_directory;

const ADDRESS: &str = "127.0.0.1:9811";

fn metrics() -> String {
    let mut answer = String::new();
    let asked = TcpStream::connect(ADDRESS).and_then(|mut connection| {
        write!(connection, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        connection.read_to_string(&mut answer)
    });
    asked.expect("it answers");
    answer
}

fn has(line: &str) -> bool {
    metrics().lines().any(|one| one.trim_end() == line)
}

fn wait_for(line: &str) {
    let there = wait::within(wait::PATIENCE, || has(line).then_some(()));
    assert!(there.is_some(), "{line}: {}", metrics());
}

#[test]
fn mounts_operations_heals_and_workers_are_counted() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_arguments(&host, host.directory("kubelet"), &["--listen-metrics", ADDRESS]);
    let volume = Volume::bindfs("volume", &open_directory(&host));
    kubelet.stage(&volume).expect("it can be staged");
    kubelet.publish(&volume, "pod", false).expect("it can be published");
    kubelet.publish(&volume, "pod", true).expect_err("it is published already, for writing");
    for line in [
        "shorefast_mounts{client=\"bindfs\",state=\"serving\"} 1",
        "shorefast_operations_total{operation=\"mount\",outcome=\"done\"} 1",
        "shorefast_operations_total{operation=\"publish\",outcome=\"done\"} 1",
        "shorefast_operations_total{operation=\"publish\",outcome=\"already-different\"} 1",
        "shorefast_operation_seconds_count{operation=\"mount\"} 1",
        "shorefast_operation_seconds_bucket{le=\"+Inf\",operation=\"publish\"} 2",
        "shorefast_workers_running 0",
        "shorefast_workers_stuck 0",
        "shorefast_image_pulls_total{outcome=\"done\"} 0",
        "shorefast_image_pulls_total{outcome=\"failed\"} 0",
        "# EOF",
    ] {
        wait_for(line);
    }
    let client = host.wait_for_client("bindfs");
    Process { pid: client.pid }.signal(Signal::KILL);
    wait_for("shorefast_heals_total{client=\"bindfs\",outcome=\"healed\"} 1");
    wait_for("shorefast_mounts{client=\"bindfs\",state=\"serving\"} 1");
    // Asked again, it is the same crash.
    assert!(has("shorefast_heals_total{client=\"bindfs\",outcome=\"healed\"} 1"), "{}", metrics());
    kubelet.unpublish(&volume, "pod").expect("it can be unpublished");
    kubelet.unstage(&volume).expect("it can be unstaged");
    assert!(!metrics().contains("client=\"bindfs\",state="), "{}", metrics());
    drop(kubelet);
    host.assert_nothing_left();
}
