//! How the driver says its volumes are.

use rustix::process::{Pid, Signal, kill_process};
use shorefast_csi::messages::*;
use shorefast_tests::channel::Answer;
use shorefast_tests::{Host, wait};

use crate::kubelet::{Kubelet, Volume};
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

#[test]
fn without_the_switch_nobody_is_told() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    refused(health(&kubelet, "volume"), UNIMPLEMENTED);
    let answer = kubelet.channel().call::<Empty>("/csi.v1.Node/NodeGetStorageHealth", &NodeGetStorageHealthRequest {});
    refused(answer, UNIMPLEMENTED);
}
