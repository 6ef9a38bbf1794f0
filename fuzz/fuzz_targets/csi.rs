//! Requests to the CSI driver, as bytes. Whatever comes: what is accepted leads below kubelet's root or below a base volume, and nowhere else.

#![no_main]

use std::collections::HashMap;
use std::path::{Component, Path};

use libfuzzer_sys::fuzz_target;
use prost::Message;
use shorefast_csi::messages::{
    CreateVolumeRequest, DeleteVolumeRequest, NodeGetVolumeStatsRequest, NodePublishVolumeRequest, NodeStageVolumeRequest,
    NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, RegistrationStatus, ValidateVolumeCapabilitiesRequest, VolumeCapability,
};
use shorefast_csi::volume_id::Provisioned;
use shorefast_csi::{capability, paths, provisioned, volume, volume_id};
use shorefast_engine::request::Author;

const ROOT: &str = "/var/lib/kubelet";

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 9 {
        0 => message(bytes, |stage: NodeStageVolumeRequest| {
            target(&stage.staging_target_path);
            wanted(&stage.volume_id, stage.volume_capability.as_ref(), &stage.volume_context);
        }),
        1 => message(bytes, |publish: NodePublishVolumeRequest| {
            target(&publish.staging_target_path);
            target(&publish.target_path);
            wanted(&publish.volume_id, publish.volume_capability.as_ref(), &publish.volume_context);
        }),
        2 => message(bytes, |unstage: NodeUnstageVolumeRequest| target(&unstage.staging_target_path)),
        3 => message(bytes, |unpublish: NodeUnpublishVolumeRequest| target(&unpublish.target_path)),
        4 => message(bytes, |stats: NodeGetVolumeStatsRequest| target(&stats.volume_path)),
        5 => message(bytes, |create: CreateVolumeRequest| {
            if let Ok(parameters) = provisioned::parse(&create.name, &create.parameters) {
                is_below(&parameters.directory);
                let volume = Provisioned::of("0123456789abcdef0123".to_owned(), &parameters.base);
                if let Ok(id) = volume.id() {
                    assert!(id.len() <= 128);
                    // Without a type it is refused later.
                    assert!(!volume.base.contains_key("type") || Provisioned::parse(&id) == Some(volume));
                }
            }
        }),
        6 => message(bytes, |delete: DeleteVolumeRequest| {
            let _ = volume_id::check(&delete.volume_id);
            if let Some(volume) = Provisioned::parse(&delete.volume_id) {
                assert_eq!(volume.id().ok(), Some(delete.volume_id));
            }
        }),
        7 => message(bytes, |validate: ValidateVolumeCapabilitiesRequest| {
            validate.volume_capabilities.iter().for_each(|one| drop(capability::parse(Some(one))));
        }),
        _ => message(bytes, |_: RegistrationStatus| {}),
    }
});

fn message<M: Message + Default>(bytes: &[u8], look: impl FnOnce(M)) {
    if let Ok(message) = M::decode(bytes) {
        look(message);
    }
}

fn target(text: &str) {
    if let Ok(below) = paths::below(Path::new(ROOT), "target", text) {
        is_below(&below.inside);
        assert_eq!(below.path(), Path::new(text));
    }
}

fn is_below(path: &Path) {
    assert!(path.components().count() > 0 && path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
}

fn wanted(id: &str, capability: Option<&VolumeCapability>, context: &HashMap<String, String>) {
    let _ = volume_id::check(id);
    let Ok(wanted) = capability::parse(capability) else { return };
    if let Ok(Some(directory)) = volume::sub_directory(context) {
        is_below(&directory);
    }
    for author in [Author::Administrator, Author::Guest] {
        if let Ok(request) = volume::request(id, context, &wanted.flags, author) {
            assert!(author == Author::Administrator || request.image.is_none());
        }
    }
}
