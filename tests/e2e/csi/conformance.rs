//! The specification's codes, call by call, as conformance suites ask for them: what is missing, what is unknown, what is not offered, and what is
//! asked for again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use shorefast_csi::messages::*;
use shorefast_tests::channel::Answer;
use shorefast_tests::{Client, Host};

use crate::kubelet::{Kubelet, Volume, capability, text};
use crate::{ALREADY_EXISTS, FAILED_PRECONDITION, INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE, UNIMPLEMENTED, open_directory, refused};

/// As often as csi-test asks.
const AGAIN: usize = 10;

fn node<Out: prost::Message + Default + 'static>(kubelet: &Kubelet<'_>, method: &str, message: &impl prost::Message) -> Answer<Out> {
    kubelet.channel().call(&format!("/csi.v1.Node/{method}"), message)
}

fn controller<Out: prost::Message + Default + 'static>(kubelet: &Kubelet<'_>, method: &str, message: &impl prost::Message) -> Answer<Out> {
    kubelet.channel().call(&format!("/csi.v1.Controller/{method}"), message)
}

/// A class of directories of a local base, with a name that fits into ids.
struct Class {
    parameters: HashMap<String, String>,
    base: PathBuf,
}

impl Class {
    fn new(host: &Host) -> Self {
        let base = open_directory(host);
        host.define("bindfs", &format!("image = \"dir:{}\"", Client::named("bindfs").image_directory().display()));
        let parameters = [("type", "bindfs".to_owned()), ("source", text(&base))];
        Self { parameters: parameters.map(|(key, value)| (key.to_owned(), value)).into(), base }
    }

    fn request(&self, name: &str) -> CreateVolumeRequest {
        CreateVolumeRequest {
            name: name.to_owned(),
            volume_capabilities: vec![capability(Mode::SingleNodeWriter)],
            parameters: self.parameters.clone(),
            ..Default::default()
        }
    }
}

fn create(kubelet: &Kubelet<'_>, message: &CreateVolumeRequest) -> Answer<shorefast_csi::messages::Volume> {
    let made: Answer<CreateVolumeResponse> = controller(kubelet, "CreateVolume", message);
    made.map(|made| made.volume.expect("a volume"))
}

#[test]
fn fields_that_are_missing() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    let path = || text(&kubelet.root.join("x"));
    let id = || "volume".to_owned();
    let capability = || Some(capability(Mode::SingleNodeWriter));
    let none = String::new;
    let unstage = |volume_id, staging_target_path| {
        node::<Empty>(&kubelet, "NodeUnstageVolume", &NodeUnstageVolumeRequest { volume_id, staging_target_path })
    };
    let publish = |volume_id, target_path, staging_target_path, volume_capability| {
        let message = NodePublishVolumeRequest { volume_id, target_path, staging_target_path, volume_capability, ..Default::default() };
        node::<Empty>(&kubelet, "NodePublishVolume", &message)
    };
    let unpublish =
        |volume_id, target_path| node::<Empty>(&kubelet, "NodeUnpublishVolume", &NodeUnpublishVolumeRequest { volume_id, target_path });
    let stats = |volume_id, volume_path| {
        let message = NodeGetVolumeStatsRequest { volume_id, volume_path, ..Default::default() };
        node::<NodeGetVolumeStatsResponse>(&kubelet, "NodeGetVolumeStats", &message)
    };
    let validate = |volume_id, volume_capabilities| {
        let message = ValidateVolumeCapabilitiesRequest { volume_id, volume_capabilities, ..Default::default() };
        controller::<ValidateVolumeCapabilitiesResponse>(&kubelet, "ValidateVolumeCapabilities", &message)
    };
    for answer in [
        unstage(none(), path()),
        unstage(id(), none()),
        publish(none(), path(), path(), capability()),
        publish(id(), none(), path(), capability()),
        publish(id(), path(), path(), None),
        unpublish(none(), path()),
        unpublish(id(), none()),
        controller(&kubelet, "DeleteVolume", &DeleteVolumeRequest::default()),
    ] {
        refused(answer, INVALID_ARGUMENT);
    }
    refused(publish(id(), path(), none(), capability()), FAILED_PRECONDITION);
    refused(stats(none(), path()), INVALID_ARGUMENT);
    refused(stats(id(), none()), INVALID_ARGUMENT);
    for unknown in [path(), "some/path".to_owned(), "/".to_owned()] {
        refused(stats(id(), unknown), NOT_FOUND);
    }
    let some = || capability().into_iter().collect();
    refused(validate(none(), some()), INVALID_ARGUMENT);
    refused(validate(id(), Vec::new()), INVALID_ARGUMENT);
    refused(validate(id(), some()), NOT_FOUND);
    // What is not there is gone already.
    for _ in 0..2 {
        assert_eq!(unstage(id(), path()), Ok(Empty {}));
        assert_eq!(unpublish(id(), path()), Ok(Empty {}));
        assert_eq!(unpublish(id(), text(&kubelet.root.join("no/such/directory"))), Ok(Empty {}));
    }
    let unknown = DeleteVolumeRequest { volume_id: "fake-vol-id".to_owned(), ..Default::default() };
    assert_eq!(controller::<Empty>(&kubelet, "DeleteVolume", &unknown), Ok(Empty {}));
    drop(kubelet);
    host.assert_nothing_left();
}

#[test]
fn only_what_is_offered_is_there() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    let kinds = |answer: GetCapabilitiesResponse| {
        let kinds = answer.capabilities.into_iter().map(|one| one.rpc.expect("a kind").kind);
        kinds.collect::<Vec<_>>()
    };
    // STAGE_UNSTAGE_VOLUME, GET_VOLUME_STATS, SINGLE_NODE_MULTI_WRITER, VOLUME_MOUNT_GROUP.
    assert_eq!(kinds(node(&kubelet, "NodeGetCapabilities", &Empty {}).expect("an answer")), [1, 2, 5, 6]);
    // CREATE_DELETE_VOLUME, SINGLE_NODE_MULTI_WRITER.
    assert_eq!(kinds(controller(&kubelet, "ControllerGetCapabilities", &Empty {}).expect("an answer")), [1, 13]);
    let info: NodeGetInfoResponse = node(&kubelet, "NodeGetInfo", &Empty {}).expect("an answer");
    // Without topology: CONTROLLER_SERVICE is the only capability of the plugin.
    assert_eq!(info, NodeGetInfoResponse { node_id: "node-1".to_owned(), max_volumes_per_node: 0 });
    for method in [
        "Node/NodeExpandVolume",
        "Node/NodeGetStorageHealth",
        "Controller/ControllerPublishVolume",
        "Controller/ControllerUnpublishVolume",
        "Controller/ListVolumes",
        "Controller/GetCapacity",
        "Controller/CreateSnapshot",
        "Controller/DeleteSnapshot",
        "Controller/ListSnapshots",
        "Controller/GetSnapshot",
        "Controller/ControllerExpandVolume",
        "Controller/ControllerGetVolume",
        "Controller/ControllerModifyVolume",
        "GroupController/GroupControllerGetCapabilities",
        "SnapshotMetadata/GetMetadataAllocated",
        "Nobody/Nothing",
    ] {
        refused::<Empty>(kubelet.channel().call(&format!("/csi.v1.{method}"), &Empty {}), UNIMPLEMENTED);
    }
    drop(kubelet);
    host.assert_nothing_left();
}

#[test]
fn capabilities_of_every_kind() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    let class = Class::new(&host);
    let made = create(&kubelet, &class.request("volume")).expect("it can be made");
    let volume = Volume { attributes: made.volume_context.clone(), ..Volume::new(&made.volume_id, &[]) };
    let with = |change: &dyn Fn(&mut VolumeCapability)| {
        let mut capability = capability(Mode::SingleNodeWriter);
        change(&mut capability);
        capability
    };
    let validate = |message: ValidateVolumeCapabilitiesRequest| {
        let answer: Answer<ValidateVolumeCapabilitiesResponse> = controller(&kubelet, "ValidateVolumeCapabilities", &message);
        answer.expect("the volume is there")
    };
    let asking = |volume_capabilities| ValidateVolumeCapabilitiesRequest {
        volume_id: made.volume_id.clone(),
        volume_context: made.volume_context.clone(),
        volume_capabilities,
        ..Default::default()
    };
    for mode in 1..=7 {
        let capability = with(&|capability| capability.access_mode = Some(AccessMode { mode }));
        let answer = validate(asking(vec![capability.clone()]));
        let confirmed = answer.confirmed.unwrap_or_else(|| panic!("mode {mode}: {}", answer.message));
        assert_eq!((confirmed.volume_capabilities, confirmed.volume_context), (vec![capability.clone()], made.volume_context.clone()));
        let volume = Volume { capability, ..volume.clone() };
        kubelet.stage(&volume).unwrap_or_else(|refused| panic!("mode {mode}: {refused:?}"));
        kubelet.unstage(&volume).expect("it can be unstaged");
    }
    let wrong = [
        ("no mode", with(&|capability| capability.access_mode = None)),
        ("mode 0", with(&|capability| capability.access_mode = Some(AccessMode { mode: 0 }))),
        ("mode 8", with(&|capability| capability.access_mode = Some(AccessMode { mode: 8 }))),
        ("mode -1", with(&|capability| capability.access_mode = Some(AccessMode { mode: -1 }))),
        ("no type", with(&|capability| capability.access_type = None)),
        ("a block device", with(&|capability| capability.access_type = Some(AccessType::Block(Empty {})))),
    ];
    for (what, wrong) in wrong {
        let answer = validate(asking(vec![capability(Mode::SingleNodeWriter), wrong.clone()]));
        assert!(answer.confirmed.is_none() && !answer.message.is_empty(), "{what}");
        refused(kubelet.stage(&Volume { capability: wrong.clone(), ..volume.clone() }), INVALID_ARGUMENT);
        let mut message = kubelet.publish_message(&volume, "pod", false);
        message.volume_capability = Some(wrong.clone());
        refused::<Empty>(node(&kubelet, "NodePublishVolume", &message), INVALID_ARGUMENT);
        let create_wrong = CreateVolumeRequest { volume_capabilities: vec![wrong], ..class.request("wrong") };
        refused(create(&kubelet, &create_wrong), INVALID_ARGUMENT);
    }
    // Of another volume.
    let mut other = asking(vec![capability(Mode::SingleNodeWriter)]);
    other.volume_context.insert("source".to_owned(), "/etc".to_owned());
    assert!(validate(other).confirmed.is_none());
    assert_eq!(
        controller::<Empty>(&kubelet, "DeleteVolume", &DeleteVolumeRequest { volume_id: made.volume_id, ..Default::default() }),
        Ok(Empty {})
    );
    drop(kubelet);
    host.assert_nothing_left();
}

const SIZE: i64 = 10 << 30;

#[test]
fn a_name_is_one_volume() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    let class = Class::new(&host);
    let sized = |name: &str, required_bytes, limit_bytes| CreateVolumeRequest {
        capacity_range: Some(CapacityRange { required_bytes, limit_bytes }),
        ..class.request(name)
    };
    refused(create(&kubelet, &class.request("")), INVALID_ARGUMENT);
    refused(create(&kubelet, &CreateVolumeRequest { volume_capabilities: Vec::new(), ..class.request("x") }), INVALID_ARGUMENT);
    refused(create(&kubelet, &sized("x", 2, 1)), OUT_OF_RANGE);
    refused(create(&kubelet, &sized("x", -1, 0)), INVALID_ARGUMENT);
    let mutable = HashMap::from([("iops".to_owned(), "1".to_owned())]);
    refused(create(&kubelet, &CreateVolumeRequest { mutable_parameters: mutable, ..class.request("x") }), INVALID_ARGUMENT);
    let without_size = create(&kubelet, &class.request("without-size")).expect("it can be made");
    assert_eq!(without_size.capacity_bytes, 0);
    let longest = create(&kubelet, &class.request(&"n".repeat(128))).expect("as long as the specification allows");
    let made = create(&kubelet, &sized("name", SIZE, SIZE)).expect("it can be made");
    assert!(made.capacity_bytes == SIZE && made.volume_id.len() <= 128);
    assert_eq!(create(&kubelet, &sized("name", SIZE, SIZE)).expect("that is the same").volume_id, made.volume_id);
    refused(create(&kubelet, &sized("name", 2 * SIZE, 2 * SIZE)), ALREADY_EXISTS);
    for (parameter, value) in [("subDir", "elsewhere"), ("onDelete", "retain"), ("mountOptions", "ro"), ("directoryMode", "0700")] {
        let mut other = sized("name", SIZE, SIZE);
        other.parameters.insert(parameter.to_owned(), value.to_owned());
        let said = refused(create(&kubelet, &other), ALREADY_EXISTS);
        assert!(said.contains("name"), "{parameter}: {said}");
        assert!(!class.base.join("elsewhere").exists());
    }
    for volume_id in [without_size.volume_id, longest.volume_id, made.volume_id] {
        for _ in 0..2 {
            let message = DeleteVolumeRequest { volume_id: volume_id.clone(), ..Default::default() };
            assert_eq!(controller::<Empty>(&kubelet, "DeleteVolume", &message), Ok(Empty {}));
        }
    }
    assert_eq!(std::fs::read_dir(&class.base).expect("the base").count(), 0);
    drop(kubelet);
    host.assert_nothing_left();
}

/// As csi-test does it: places that are not where kubelet has them, and each call ten times.
#[test]
fn everything_again_and_again() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    let class = Class::new(&host);
    let made: Vec<_> = (0..AGAIN).map(|_| create(&kubelet, &class.request("again")).expect("it can be made")).collect();
    assert!(made.iter().all(|one| *one == made[0]), "{made:?}");
    let (staging, targets) = (kubelet.root.join("csi-staging"), kubelet.root.join("csi-mount"));
    for directory in [&staging, &targets] {
        std::fs::create_dir(directory).expect("the test's own directory");
    }
    let target = targets.join("target");
    let (volume_id, volume_context) = (made[0].volume_id.clone(), made[0].volume_context.clone());
    let volume_capability = Some(capability(Mode::SingleNodeWriter));
    let stage = NodeStageVolumeRequest {
        volume_id: volume_id.clone(),
        staging_target_path: text(&staging),
        volume_capability: volume_capability.clone(),
        volume_context: volume_context.clone(),
        ..Default::default()
    };
    let publish = NodePublishVolumeRequest {
        volume_id: volume_id.clone(),
        staging_target_path: text(&staging),
        target_path: text(&target),
        volume_capability,
        volume_context,
        ..Default::default()
    };
    let again = |method: &str, message: &dyn Fn() -> Answer<Empty>| {
        (0..AGAIN).for_each(|round| assert_eq!(message(), Ok(Empty {}), "{method} {round}"));
    };
    again("NodeStageVolume", &|| node(&kubelet, "NodeStageVolume", &stage));
    again("NodePublishVolume", &|| node(&kubelet, "NodePublishVolume", &publish));
    let stats = |path: &Path| {
        let message = NodeGetVolumeStatsRequest { volume_id: volume_id.clone(), volume_path: text(path), ..Default::default() };
        node::<NodeGetVolumeStatsResponse>(&kubelet, "NodeGetVolumeStats", &message)
    };
    assert!(!stats(&target).expect("it is there").usage.is_empty());
    refused(stats(&staging.join("nothing")), NOT_FOUND);
    let unpublish = NodeUnpublishVolumeRequest { volume_id: volume_id.clone(), target_path: text(&target) };
    again("NodeUnpublishVolume", &|| node(&kubelet, "NodeUnpublishVolume", &unpublish));
    assert!(!target.exists() && targets.exists());
    let unstage = NodeUnstageVolumeRequest { volume_id: volume_id.clone(), staging_target_path: text(&staging) };
    again("NodeUnstageVolume", &|| node(&kubelet, "NodeUnstageVolume", &unstage));
    assert!(staging.exists());
    let delete = DeleteVolumeRequest { volume_id, ..Default::default() };
    again("DeleteVolume", &|| controller(&kubelet, "DeleteVolume", &delete));
    drop(kubelet);
    host.assert_nothing_left();
}
