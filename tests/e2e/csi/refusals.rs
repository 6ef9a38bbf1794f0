//! Requests that are incomplete, or meant to reach what is not kubelet's.

use std::fs;

use shorefast_csi::messages::*;
use shorefast_tests::Host;
use shorefast_tests::channel::Answer;

use crate::kubelet::{Kubelet, Volume, capability, text};
use crate::{INVALID_ARGUMENT, NOT_FOUND, refused};

#[test]
fn what_is_missing_or_leads_elsewhere_is_refused() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::bindfs("volume", &host.directory("source"));
    let outside = host.directory("outside");
    std::os::unix::fs::symlink(&outside, kubelet.root.join("link")).expect("a link in kubelet's directory");
    let stage = |change: &dyn Fn(&mut NodeStageVolumeRequest)| {
        let mut message = kubelet.stage_message(&volume);
        change(&mut message);
        refused::<Empty>(kubelet.channel().call("/csi.v1.Node/NodeStageVolume", &message), INVALID_ARGUMENT)
    };
    stage(&|message| message.volume_id.clear());
    stage(&|message| message.staging_target_path.clear());
    stage(&|message| message.volume_capability = None);
    stage(&|message| message.volume_capability = Some(capability(Mode::Unknown)));
    stage(&|message| message.volume_capability.as_mut().expect("one").access_type = Some(AccessType::Block(Empty {})));
    stage(&|message| message.volume_id = "x".repeat(5000));
    stage(&|message| message.staging_target_path = text(&outside));
    stage(&|message| message.staging_target_path.push_str("/../../../../../../outside"));
    let said = stage(&|message| drop(message.volume_context.insert("type".to_owned(), "nosuchfs".to_owned())));
    assert!(said.contains("nosuchfs") && said.contains("hint"), "{said}");
    stage(&|message| drop(message.volume_context.remove("source")));
    let said = stage(&|message| drop(message.volume_context.insert("sauce".to_owned(), "x".to_owned())));
    assert!(said.contains("source"), "{said}");

    kubelet.stage(&volume).expect("without a mistake it can be staged");
    let through_link = text(&kubelet.root.join("link/mount"));
    let mut message = kubelet.publish_message(&volume, "pod", false);
    message.target_path = through_link.clone();
    let answer: Answer<Empty> = kubelet.channel().call("/csi.v1.Node/NodePublishVolume", &message);
    answer.expect_err("a link leads outside");
    for (field, target) in [("", ""), ("outside", text(&outside).as_str()), ("..", "/srv/kubelet/pods/../../outside/x")] {
        let mut message = kubelet.publish_message(&volume, "pod", false);
        message.target_path = target.to_owned();
        let answer = kubelet.channel().call::<Empty>("/csi.v1.Node/NodePublishVolume", &message);
        assert_eq!(answer.expect_err(field).0, INVALID_ARGUMENT);
    }
    // Nothing outside is removed either: neither directly, nor through the link, nor what somebody else mounted.
    let message = NodeUnpublishVolumeRequest { volume_id: "volume".to_owned(), target_path: through_link };
    fs::create_dir(outside.join("mount")).expect("a directory outside");
    kubelet.channel().call::<Empty>("/csi.v1.Node/NodeUnpublishVolume", &message).expect_err("a link leads outside");
    assert!(outside.join("mount").exists());
    let foreign = kubelet.target("foreign");
    fs::create_dir(&foreign).expect("a directory of somebody else");
    rustix::mount::mount("tmpfs", &foreign, "tmpfs", rustix::mount::MountFlags::empty(), None).expect("a mount of somebody else");
    assert_eq!(kubelet.unpublish(&volume, "foreign").expect_err("it is not ours").0, NOT_FOUND);
    fs::write(foreign.join("x"), "").expect("it is still there");
    rustix::mount::unmount(&foreign, rustix::mount::UnmountFlags::empty()).expect("the test's own mount");
    // A directory with files in it is nobody's leftover.
    fs::write(foreign.join("precious"), "").expect("a file below");
    kubelet.unpublish(&volume, "foreign").expect_err("it is not empty");
    assert!(foreign.join("precious").exists());
    kubelet.unstage(&volume).expect("it can be unstaged");
    drop(kubelet);
    host.assert_nothing_left();
}
