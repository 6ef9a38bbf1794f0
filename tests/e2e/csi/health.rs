//! How the driver says its volumes are.

use rustix::process::{Pid, Signal, kill_process};
use shorefast_csi::messages::*;
use shorefast_tests::channel::Answer;
use shorefast_tests::processes::Process;
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Host, wait};

use crate::kubelet::{Kubelet, Volume};
use crate::silence::in_container;
use crate::{UNIMPLEMENTED, open_directory, refused};

fn health(kubelet: &Kubelet<'_>, volume: &str) -> Answer<NodeGetVolumeHealthResponse> {
    let message = NodeGetVolumeHealthRequest { volume_id: volume.to_owned(), ..Default::default() };
    kubelet.channel().call("/csi.v1.Node/NodeGetVolumeHealth", &message)
}

/// Of all clients.
fn storage(kubelet: &Kubelet<'_>) -> Vec<(i32, String)> {
    let answer: Answer<NodeGetStorageHealthResponse> =
        kubelet.channel().call("/csi.v1.Node/NodeGetStorageHealth", &NodeGetStorageHealthRequest {});
    answer.expect("it is told").backend_health.into_iter().map(|one| (one.status, one.message)).collect()
}

fn statuses(kubelet: &Kubelet<'_>, volume: &str) -> Vec<HealthStatus> {
    health(kubelet, volume).expect("it is told").volume_health.expect("it is told").health_statuses
}

#[test]
fn a_volume_whose_client_has_ended_is_inaccessible() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_arguments(&host, host.directory("kubelet"), &["--volume-health"]);
    let can: GetCapabilitiesResponse = kubelet.channel().call("/csi.v1.Node/NodeGetCapabilities", &Empty {}).expect("it can do something");
    for kind in [7, 8] {
        assert!(can.capabilities.iter().any(|one| one.rpc.as_ref().is_some_and(|rpc| rpc.kind == kind)), "{kind}");
    }
    // One that gets no other client: what is told of others is over in a moment.
    let volume = Volume::bindfs("volume", &open_directory(&host)).with("mountOptions", "shorefast-on-exit=keep");
    assert_eq!(statuses(&kubelet, "volume"), [], "never mounted");
    kubelet.stage(&volume).expect("it can be staged");
    kubelet.publish(&volume, "pod", false).expect("it can be published");
    assert_eq!(statuses(&kubelet, "volume"), []);
    assert_eq!(storage(&kubelet), []);
    let client = host.wait_for_client("bindfs");
    kill_process(Pid::from_raw(client.pid as i32).expect("a pid"), Signal::KILL).expect("it runs");
    let told = wait::until("the end of the client to be told", || Some(statuses(&kubelet, "volume")).filter(|told| !told.is_empty()));
    assert!(told.iter().all(|one| one.status == INACCESSIBLE && one.reason == "ClientEnded"), "{told:?}");
    assert_eq!(statuses(&kubelet, "another"), []);
    let degraded = storage(&kubelet);
    assert!(degraded.len() == 1 && degraded[0].0 == STORAGE_DEGRADED && degraded[0].1.contains("pod"), "{degraded:?}");
    kubelet.unpublish(&volume, "pod").expect("it can be unpublished");
    kubelet.unstage(&volume).expect("it can be unstaged");
    assert_eq!(statuses(&kubelet, "volume"), []);
    assert_eq!(storage(&kubelet), []);
    drop(kubelet);
    host.assert_nothing_left();
}

/// The reasons for which the volume is not well, each once.
fn reasons(kubelet: &Kubelet<'_>) -> Vec<String> {
    let mut reasons: Vec<_> = statuses(kubelet, "volume").into_iter().map(|one| one.reason).collect();
    reasons.sort();
    reasons.dedup();
    reasons
}

#[test]
fn a_client_that_answers_nothing_is_told() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_arguments(&host, host.directory("kubelet"), &["--volume-health"]);
    let source = open_directory(&host);
    std::fs::write(source.join("file"), "content").expect("the source can be written to");
    let volume = Volume::bindfs("volume", &source);
    kubelet.stage(&volume).expect("it can be staged");
    kubelet.publish(&volume, "pod", false).expect("it can be published");
    let client = Process { pid: host.wait_for_client("bindfs").pid };
    client.signal(Signal::STOP);
    // It lives, so that the client is not ended for its sake.
    let mut reader = in_container(&kubelet.target("pod"), "exec cat /mnt/file");
    let told = wait::until("it to be told", || Some(statuses(&kubelet, "volume")).filter(|told| !told.is_empty()));
    assert!(told.iter().all(|one| one.status == INACCESSIBLE && one.reason == "ClientHangs"), "{told:?}");
    assert!(told.len() == 2 && told.iter().any(|one| one.message.contains("pods")), "the mount and its copy: {told:?}");
    let degraded = storage(&kubelet);
    assert!(degraded.len() == 1 && degraded[0].0 == STORAGE_UNREACHABLE && degraded[0].1.contains("2 mounts"), "{degraded:?}");
    client.signal(Signal::CONT);
    reader.wait().expect("its own child");
    wait::until("it to be well", || reasons(&kubelet).is_empty().then_some(()));
    assert_eq!(storage(&kubelet), []);
    kubelet.unpublish(&volume, "pod").expect("it can be unpublished");
    kubelet.unstage(&volume).expect("it can be unstaged");
    drop(kubelet);
    host.assert_nothing_left();
}

#[test]
fn a_client_that_cannot_be_replaced_is_told_until_it_is_given_up() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    host.settle();
    let kubelet = Kubelet::with_arguments(&host, host.directory("kubelet"), &["--volume-health"]);
    let volume = Volume::sshfs(&host, "volume", &server);
    let options = format!("{},shorefast-crashes=2", volume.attributes["mountOptions"]);
    let volume = volume.with("mountOptions", &options);
    kubelet.stage(&volume).expect("it can be staged");
    kubelet.publish(&volume, "pod", false).expect("it can be published");
    let client = Process { pid: host.wait_for_client("sshfs").pid };
    // Nobody answers a new client, which is refused at once.
    drop(server);
    client.signal(Signal::KILL);
    wait::until("the attempt to be told", || (reasons(&kubelet) == ["Healing"]).then_some(()));
    wait::until("the end of the attempts to be told", || (reasons(&kubelet) == ["HealingFailed"]).then_some(()));
    assert!(storage(&kubelet).iter().all(|(status, said)| *status == STORAGE_DEGRADED && said.contains("given up")));
    kubelet.unpublish(&volume, "pod").expect("it can be unpublished");
    kubelet.unstage(&volume).expect("it can be unstaged");
    assert_eq!(statuses(&kubelet, "volume"), []);
    drop(kubelet);
    host.assert_nothing_left();
}

#[test]
fn without_the_switch_nobody_is_told() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    refused(health(&kubelet, "volume"), UNIMPLEMENTED);
    let answer = kubelet.channel().call::<Empty>("/csi.v1.Node/NodeGetStorageHealth", &NodeGetStorageHealthRequest {});
    refused(answer, UNIMPLEMENTED);
}
