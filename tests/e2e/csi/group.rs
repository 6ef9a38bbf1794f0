//! `fsGroup`: the client is told once which group its files belong to, however many pods there are.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use shorefast_tests::Host;
use shorefast_tests::servers::Sshd;

use crate::kubelet::{Kubelet, Volume};
use crate::{ALREADY_EXISTS, FAILED_PRECONDITION, INVALID_ARGUMENT, open_directory, refused};

#[test]
fn pods_that_share_a_volume_have_the_same_group_or_are_refused() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    host.settle();
    let kubelet = Kubelet::with_driver(&host);
    let plain = Volume::sshfs(&host, "volume", &server);
    fs::write(server.share.join("file"), "content").expect("the share can be written to");
    let (one, other) = (plain.clone().with_group("4711"), plain.clone().with_group("4712"));
    let group = |pod: &str| fs::metadata(kubelet.target(pod).join("file")).expect("it serves").gid();
    kubelet.stage(&one).expect("it can be staged");
    for _ in 0..2 {
        kubelet.publish(&one, "one", false).expect("it can be published, and again");
    }
    assert_eq!(group("one"), 4711);
    let said = refused(kubelet.publish(&other, "other", false), FAILED_PRECONDITION);
    assert!(said.contains("4712") && said.contains("fsGroup"), "{said}");
    assert!(!kubelet.target("other").exists());
    // kubelet stages again after its restart.
    let said = refused(kubelet.stage(&other), ALREADY_EXISTS);
    assert!(said.contains("group"), "{said}");
    kubelet.stage(&one).expect("that is the same");
    // Who asks for no group takes the files as they are.
    kubelet.stage(&plain).expect("it is staged");
    kubelet.publish(&plain, "any", false).expect("it can be published");
    assert_eq!(group("any"), 4711);
    for pod in ["one", "any"] {
        kubelet.unpublish(&plain, pod).expect("it can be unpublished");
    }
    kubelet.unstage(&plain).expect("it can be unstaged");

    // Files that belong to whomever they belong to on the server.
    kubelet.stage(&plain).expect("it can be staged");
    refused(kubelet.publish(&one, "one", false), FAILED_PRECONDITION);
    kubelet.unstage(&plain).expect("it can be unstaged");

    // A volume in a pod is the pod's own, with a group of its own.
    for (volume, pod, wanted) in [(&one, "one", 4711), (&other, "other", 4712)] {
        kubelet.publish_inline(volume, pod).expect("it can be published");
        assert_eq!(group(pod), wanted);
        kubelet.unpublish(volume, pod).expect("it can be unpublished");
    }
    drop(kubelet);
    host.assert_nothing_left();
}

#[test]
fn a_client_that_cannot_be_told_is_refused() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::bindfs("volume", &open_directory(&host));
    let said = refused(kubelet.stage(&volume.clone().with_group("4711")), INVALID_ARGUMENT);
    assert!(said.contains("cannot be told which group") && said.contains("fsGroup"), "{said}");
    // Not even beside a pod that asks for nothing.
    kubelet.stage(&volume).expect("it can be staged");
    refused(kubelet.publish(&volume.clone().with_group("4711"), "pod", false), FAILED_PRECONDITION);
    refused(kubelet.publish(&volume.clone().with_group("no number"), "pod", false), INVALID_ARGUMENT);
    kubelet.publish(&volume, "pod", false).expect("it can be published");
    kubelet.unpublish(&volume, "pod").expect("it can be unpublished");
    kubelet.unstage(&volume).expect("it can be unstaged");
    drop(kubelet);
    host.assert_nothing_left();
}
