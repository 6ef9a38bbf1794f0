//! Many requests, cancelled ones, and the death of the driver between them.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use shorefast_csi::messages::{Empty, NodeUnpublishVolumeRequest};
use shorefast_tests::channel::{Answer, Refused};
use shorefast_tests::kernel::is_guest;
use shorefast_tests::{Host, mountinfo, processes, wait};

use crate::kubelet::{Kubelet, Volume, text};
use crate::{ABORTED, CANCELLED_OR_LATE, SCRIPT, define_script, open_directory, real, refused};

#[test]
fn requests_for_one_volume_come_one_by_one_and_can_be_cancelled() {
    let Some(host) = Host::new() else { return };
    define_script(&host, "sleep 60", "");
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::new("slow", &SCRIPT);
    let channel = kubelet.channel();
    let method = "/csi.v1.Node/NodeStageVolume";
    let slow = channel.begin::<Empty>(method, &kubelet.stage_message(&volume), None);
    channel.pass_time(Duration::from_millis(300));
    refused(kubelet.stage(&volume), ABORTED);
    refused(kubelet.unstage(&volume), ABORTED);
    // Another volume's does not wait.
    let other = Volume::bindfs("other", &host.directory("source"));
    kubelet.stage(&other).expect("it can be staged");
    host.wait_for_client("sleep");
    slow.abort();
    // The caller is gone, so is the client, and the volume is free again.
    define_script(&host, "mount -t tmpfs none $1", "");
    let freed = wait::within(Duration::from_secs(20), || {
        channel.pass_time(Duration::from_millis(50));
        kubelet.stage(&volume).ok()
    });
    assert!(freed.is_some());
    kubelet.unstage(&volume).expect("it can be unstaged");
    define_script(&host, "sleep 60", "");
    let asked = Instant::now();
    let late = channel.begin::<Empty>(method, &kubelet.stage_message(&volume), Some("3S"));
    let Refused(code, said) = channel.end(late).expect_err("it is late");
    assert!(CANCELLED_OR_LATE.contains(&code) && asked.elapsed() < Duration::from_secs(10), "{code} {said} {:?}", asked.elapsed());
    kubelet.unstage(&other).expect("it can be unstaged");
    drop(kubelet);
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn the_driver_may_be_killed_at_any_moment() {
    let Some(host) = Host::new() else { return };
    let mut kubelet = Kubelet::with_driver(&host);
    let source = open_directory(&host);
    let volume = Volume::bindfs("volume", &source);
    let lasting = Volume::bindfs("lasting", &source);
    kubelet.stage(&lasting).expect("it can be staged");
    kubelet.publish(&lasting, "lasting", false).expect("it can be published");
    for round in 0..12u64 {
        let delay = Duration::from_millis(round * 3 % 25);
        {
            let channel = kubelet.channel();
            let stage = channel.begin::<Empty>("/csi.v1.Node/NodeStageVolume", &kubelet.stage_message(&volume), None);
            channel.pass_time(delay);
            drop(stage);
        }
        kubelet.kill();
        fs::write(kubelet.target("lasting").join("file"), format!("{round}")).expect("volumes outlive their driver");
        kubelet.start();
        kubelet.stage(&volume).expect("it can be staged, whatever was done before");
        {
            let channel = kubelet.channel();
            let publish = channel.begin::<Empty>("/csi.v1.Node/NodePublishVolume", &kubelet.publish_message(&volume, "pod", false), None);
            channel.pass_time(delay);
            drop(publish);
        }
        kubelet.kill();
        kubelet.start();
        kubelet.publish(&volume, "pod", false).expect("it can be published, whatever was done before");
        assert_eq!(fs::read_to_string(kubelet.target("pod").join("file")).expect("it serves"), format!("{round}"));
        assert_eq!(mountinfo::at(real(&kubelet.target("pod"))).len(), 1);
        kubelet.unpublish(&volume, "pod").expect("it can be unpublished");
        kubelet.unstage(&volume).expect("it can be unstaged");
    }
    kubelet.stop().exits(0);
    kubelet.start();
    kubelet.unpublish(&lasting, "lasting").expect("a new driver knows it");
    kubelet.unstage(&lasting).expect("a new driver knows it");
    kubelet.stop().exits(0);
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn a_full_nodes_volumes_all_at_once() {
    let Some(host) = Host::new() else { return };
    // As many pods as Kubernetes puts on a node. A guest has one slow core, on which fewer wait for each other just as much.
    let count = if is_guest() { 30 } else { 110 };
    let kubelet = Kubelet::with_driver(&host);
    let source = host.directory("source");
    let volumes: Vec<_> = (0..count).map(|number| Volume::bindfs(&format!("v{number}"), &source)).collect();
    let channel = kubelet.channel();
    let all =
        |calls: Vec<tokio::task::JoinHandle<Answer<Empty>>>| calls.into_iter().for_each(|call| assert_eq!(channel.end(call), Ok(Empty {})));
    all(volumes.iter().map(|volume| channel.begin("/csi.v1.Node/NodeStageVolume", &kubelet.stage_message(volume), None)).collect());
    let publish =
        |volume: &Volume| channel.begin("/csi.v1.Node/NodePublishVolume", &kubelet.publish_message(volume, &volume.id, false), None);
    all(volumes.iter().map(publish).collect());
    assert_eq!(host.list().len(), count);
    volumes.iter().for_each(|volume| assert_eq!(kubelet.unpublish(volume, &volume.id), Ok(Empty {})));
    volumes.iter().for_each(|volume| assert_eq!(kubelet.unstage(volume), Ok(Empty {})));
    drop(kubelet);
    host.assert_nothing_left();
}

/// The driver keeps a process for the next request.
#[test]
fn who_kills_the_process_for_the_next_request_makes_none_fail() {
    let Some(host) = Host::new() else { return };
    let mut kubelet = Kubelet::with_driver(&host);
    let volume = Volume::bindfs("volume", &host.directory("source"));
    let (driver, children) = (kubelet.pid().to_string(), processes::on_this_network);
    let waiting = || children().into_iter().find(|process| process.status("PPid").as_ref() == Some(&driver));
    for _ in 0..5 {
        kubelet.stage(&volume).expect("it can be staged");
        let next = wait::until("the process for the next request", waiting);
        next.signal(Signal::KILL);
        wait::until("its end", || next.status("State").is_none_or(|state| state.starts_with('Z')).then_some(()));
        kubelet.unstage(&volume).expect("it can be unstaged");
    }
    wait::until("the process for the next request", waiting);
    kubelet.kill();
    host.assert_nothing_left();
}

/// Of a hostile or broken caller: each gets an answer by the specification, and the driver stays small.
#[test]
fn a_thousand_requests_at_once() {
    let Some(host) = Host::new() else { return };
    let count = if is_guest() { 100 } else { 1000 };
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::bindfs("volume", &host.directory("source"));
    let (channel, stage) = (kubelet.channel(), kubelet.stage_message(&volume));
    let same: Vec<_> = (0..count).map(|_| channel.begin::<Empty>("/csi.v1.Node/NodeStageVolume", &stage, None)).collect();
    let answers: Vec<_> = same.into_iter().map(|call| channel.end(call)).collect();
    assert!(answers.iter().any(Result::is_ok));
    assert!(answers.iter().all(|answer| answer.as_ref().err().is_none_or(|refused| refused.0 == ABORTED)), "{answers:?}");
    assert_eq!(host.list().len(), 1);
    let absent = |number| NodeUnpublishVolumeRequest {
        volume_id: format!("v{number}"),
        target_path: text(&kubelet.root.join(format!("pods/{number}/mount"))),
    };
    let different: Vec<_> =
        (0..count).map(|number| channel.begin::<Empty>("/csi.v1.Node/NodeUnpublishVolume", &absent(number), None)).collect();
    different.into_iter().for_each(|call| assert_eq!(channel.end(call), Ok(Empty {})));
    let status = fs::read_to_string(format!("/proc/{}/status", kubelet.pid())).expect("it runs");
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    assert!(most.is_some_and(|kilobytes| kilobytes < 100_000), "{most:?}");
    kubelet.unstage(&volume).expect("it can be unstaged");
    drop(kubelet);
    host.assert_nothing_left();
}
