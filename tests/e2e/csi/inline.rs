//! Volumes that are written in a pod.

use shorefast_csi::messages::Empty;
use shorefast_tests::channel::Refused;
use shorefast_tests::{Client, Host, mountinfo};

use crate::kubelet::{Kubelet, Volume};
use crate::{FAILED_PRECONDITION, INVALID_ARGUMENT, PERMISSION_DENIED, SCRIPT, define_script, real, refused};

#[test]
fn a_pods_author_sets_only_what_an_administrator_leaves_open() {
    let Some(host) = Host::new() else { return };
    define_script(&host, "mount -t tmpfs none $1", "files = [\"keyfile\"]");
    host.define(
        "closed",
        &format!("types = [\"closed\"]\nguests = \"refused\"\nimage = \"dir:{}\"", Client::named("tmpfs").image_directory().display()),
    );
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::new("inline", &SCRIPT);
    for _ in 0..2 {
        kubelet.publish_inline(&volume, "pod").expect("it can be published, and again");
    }
    let mount = &mountinfo::at(real(&kubelet.target("pod")))[0];
    assert!(mount.has("nosuid") && mount.has("nodev"), "{mount:?}");
    kubelet.stats("inline", &kubelet.target("pod")).expect("it is known how full it is");
    for _ in 0..2 {
        kubelet.unpublish(&volume, "pod").expect("it can be unpublished, and again");
    }
    assert!(!kubelet.target("pod").exists());
    // Without staging, only a volume of a pod's own.
    let mut message = kubelet.publish_message(&volume, "pod", false);
    message.staging_target_path.clear();
    refused::<Empty>(kubelet.channel().call("/csi.v1.Node/NodePublishVolume", &message), FAILED_PRECONDITION);
    let rows = [
        ("an image", volume.clone().with("image", "dir:/")),
        ("a client", volume.clone().with("client", "script")),
        ("a file of the host", volume.clone().with("mountOptions", "keyfile=/etc/shadow")),
        ("set-uid programs", volume.clone().with("mountOptions", "suid")),
        ("a label", volume.clone().with("mountOptions", "context=\"a,b\"")),
        ("a path of the host", Volume::new("inline", &[("type", "bindfs"), ("source", "/etc")])),
        ("a client that is not for them", Volume::new("inline", &[("type", "closed"), ("source", "x")])),
    ];
    for (what, volume) in rows {
        let Refused(code, said) = kubelet.publish_inline(&volume, "pod").expect_err(what);
        assert_eq!(code, PERMISSION_DENIED, "{what}: {said}");
        assert!(!kubelet.target("pod").exists(), "{what}");
    }
    // mount(8) would do anything.
    refused(kubelet.publish_inline(&Volume::new("inline", &[("type", "tmpfs"), ("source", "none")]), "pod"), INVALID_ARGUMENT);
    refused(kubelet.stage(&Volume::new("staged", &[("type", "none"), ("source", "/etc"), ("mountOptions", "bind")])), INVALID_ARGUMENT);
    drop(kubelet);
    host.assert_nothing_left();
}
