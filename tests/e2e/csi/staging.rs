//! Stage and publish: one client per volume, a copy of its mount for each pod.

use std::fs;
use std::path::Path;

use shorefast_csi::messages::*;
use shorefast_tests::{Host, mountinfo};

use crate::kubelet::{Kubelet, Volume};
use crate::{ALREADY_EXISTS, FAILED_PRECONDITION, NOT_FOUND, open_directory, refused};

#[test]
fn a_volume_has_one_client_and_a_copy_for_each_pod() {
    for root in [shorefast_tests::Root::Private, shorefast_tests::Root::Shared] {
        let Some(host) = Host::with_root(root) else { return };
        let kubelet = Kubelet::with_driver(&host);
        let source = open_directory(&host);
        fs::write(source.join("file"), "content").expect("the source can be written to");
        let volume = Volume::bindfs("volume", &source);
        let mounts = || mountinfo::here().len();
        let before = mounts();
        for _ in 0..3 {
            kubelet.stage(&volume).expect("it can be staged, and again");
        }
        assert_eq!(mounts(), before + 1);
        for (number, readonly) in [(1, false), (2, true), (3, false)] {
            for _ in 0..2 {
                kubelet.publish(&volume, &format!("pod{number}"), readonly).expect("it can be published, and again");
                assert_eq!(mounts(), before + 1 + number);
            }
        }
        assert_eq!(host.list().len(), 1);
        fs::write(kubelet.target("pod1").join("new"), "from pod 1").expect("it is writable");
        assert_eq!(fs::read(kubelet.target("pod2").join("new")).expect("the other pod sees it"), b"from pod 1");
        let error = fs::write(kubelet.target("pod2").join("newer"), "").expect_err("that one is read-only");
        assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);

        // The second call's table.
        refused(kubelet.publish(&volume, "pod1", true), ALREADY_EXISTS);
        let other = Volume::bindfs("volume", &host.directory("other"));
        refused(kubelet.stage(&other), ALREADY_EXISTS);
        refused(kubelet.stage(&volume.clone().with("mountOptions", "ro")), ALREADY_EXISTS);

        let usage = kubelet.stats("volume", &kubelet.target("pod1")).expect("it is known how full it is").usage;
        assert!(usage.len() == 2 && usage[0].total > 0 && usage[0].unit == BYTES && usage[1].unit == INODES, "{usage:?}");
        refused(kubelet.stats("another", &kubelet.target("pod1")), NOT_FOUND);
        refused(kubelet.stats("volume", &kubelet.root.join("nowhere")), NOT_FOUND);
        refused(kubelet.stats("volume", Path::new("/etc")), NOT_FOUND);

        refused(kubelet.unstage(&volume), FAILED_PRECONDITION);
        for pod in ["pod1", "pod2", "pod3", "pod3", "never"] {
            kubelet.unpublish(&volume, pod).expect("it can be unpublished, and again");
            assert!(!kubelet.target(pod).exists());
        }
        for _ in 0..2 {
            kubelet.unstage(&volume).expect("it can be unstaged, and again");
        }
        assert_eq!(mounts(), before);
        assert_eq!(fs::read(source.join("file")).expect("the data are as they were"), b"content");
        drop(kubelet);
        host.assert_nothing_left();
    }
}

#[test]
fn a_staged_mount_that_is_gone_is_not_published() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::bindfs("volume", &host.directory("source"));
    refused(kubelet.publish(&volume, "pod", false), FAILED_PRECONDITION);
    kubelet.stage(&volume).expect("it can be staged");
    rustix::mount::unmount(kubelet.staging("volume"), rustix::mount::UnmountFlags::empty()).expect("an umount by hand");
    refused(kubelet.publish(&volume, "pod", false), FAILED_PRECONDITION);
    assert!(!kubelet.target("pod").exists());
    // Of another volume.
    kubelet.stage(&volume).expect("it can be staged again");
    let mut message = kubelet.publish_message(&volume, "pod", false);
    message.volume_id = "another".to_owned();
    refused::<Empty>(kubelet.channel().call("/csi.v1.Node/NodePublishVolume", &message), FAILED_PRECONDITION);
    kubelet.unstage(&volume).expect("it can be unstaged");
    drop(kubelet);
    host.assert_nothing_left();
}

#[test]
fn a_volume_for_one_pod_is_published_once() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::bindfs("volume", &host.directory("source")).with_mode(Mode::SingleNodeSingleWriter);
    kubelet.stage(&volume).expect("it can be staged");
    kubelet.publish(&volume, "pod1", false).expect("it can be published");
    kubelet.publish(&volume, "pod1", false).expect("that is the same");
    refused(kubelet.publish(&volume, "pod2", false), FAILED_PRECONDITION);
    assert!(!kubelet.target("pod2").exists());
    kubelet.unpublish(&volume, "pod1").expect("it can be unpublished");
    kubelet.publish(&volume, "pod2", false).expect("now the other may");
    kubelet.unpublish(&volume, "pod2").expect("it can be unpublished");
    let reader = volume.clone().with_mode(Mode::MultiNodeReaderOnly);
    kubelet.publish(&reader, "pod3", false).expect("it can be published");
    assert!(fs::write(kubelet.target("pod3").join("x"), "").is_err());
    kubelet.unpublish(&volume, "pod3").expect("it can be unpublished");
    kubelet.unstage(&volume).expect("it can be unstaged");
    drop(kubelet);
    host.assert_nothing_left();
}

/// The specification asks for 128 bytes; a socket's address has room for 108.
#[test]
fn paths_may_be_as_long_as_the_kernel_takes_them() {
    let Some(host) = Host::new() else { return };
    let long = "x".repeat(200);
    let kubelet = Kubelet::with_driver_at(&host, host.directory(format!("{long}/{long}/{long}/kubelet")));
    let source = open_directory(&host);
    let volume = Volume::bindfs("volume", &source);
    let pod = format!("{long}/{long}/{long}");
    kubelet.stage(&volume).expect("it can be staged");
    kubelet.publish(&volume, &pod, false).expect("it can be published");
    assert!(kubelet.target(&pod).as_os_str().len() > 1200);
    fs::write(kubelet.target(&pod).join("file"), "content").expect("it is writable");
    assert_eq!(fs::read(source.join("file")).expect("it arrived"), b"content");
    kubelet.stats("volume", &kubelet.target(&pod)).expect("it is known how full it is");
    kubelet.unpublish(&volume, &pod).expect("it can be unpublished");
    kubelet.unstage(&volume).expect("it can be unstaged");
    drop(kubelet);
    host.assert_nothing_left();
}

#[test]
fn a_copy_that_was_unmounted_by_hand_is_forgotten() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::bindfs("volume", &host.directory("source"));
    kubelet.stage(&volume).expect("it can be staged");
    for pod in ["gone", "stays"] {
        kubelet.publish(&volume, pod, false).expect("it can be published");
    }
    rustix::mount::unmount(kubelet.target("gone"), rustix::mount::UnmountFlags::empty()).expect("an umount by hand");
    let copies = host.run_directory().join("copies");
    let entries = || fs::read_dir(&copies).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    host.shorefast(&["reconcile"]).succeeds();
    assert_eq!(entries().len(), 2, "it may be of a copy that is just being made");
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    for entry in entries() {
        fs::File::options().append(true).open(&entry).and_then(|file| file.set_modified(hour_ago)).expect("root's own file");
    }
    host.shorefast(&["reconcile"]).succeeds();
    assert_eq!(entries().len(), 1);
    for pod in ["gone", "stays"] {
        kubelet.unpublish(&volume, pod).expect("it can be unpublished");
    }
    kubelet.unstage(&volume).expect("it can be unstaged");
    drop(kubelet);
    host.assert_nothing_left();
}
