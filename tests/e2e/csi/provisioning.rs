//! Volumes that are made on demand: directories of a base volume, on real servers.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use shorefast_csi::messages::*;
use shorefast_tests::channel::Answer;
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Client, Host, mountinfo, wait};

use crate::kubelet::{Kubelet, Volume, capability, text};
use crate::{ALREADY_EXISTS, INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, SCRIPT, define_script, open_directory, refused};

/// What the external provisioner asks for a claim.
fn create(
    kubelet: &Kubelet<'_>,
    name: &str,
    parameters: &[(&str, &str)],
    secrets: &HashMap<String, String>,
) -> Answer<CreateVolumeResponse> {
    let metadata =
        [("csi.storage.k8s.io/pvc/name", "claim"), ("csi.storage.k8s.io/pvc/namespace", "team"), ("csi.storage.k8s.io/pv/name", name)];
    let parameters = parameters.iter().chain(&metadata).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let message = CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: 1 << 30, limit_bytes: 0 }),
        volume_capabilities: vec![capability(Mode::MultiNodeMultiWriter)],
        parameters,
        secrets: secrets.clone(),
        ..Default::default()
    };
    kubelet.channel().call("/csi.v1.Controller/CreateVolume", &message)
}

fn delete(kubelet: &Kubelet<'_>, id: &str, secrets: &HashMap<String, String>) -> Answer<Empty> {
    let message = DeleteVolumeRequest { volume_id: id.to_owned(), secrets: secrets.clone() };
    kubelet.channel().call("/csi.v1.Controller/DeleteVolume", &message)
}

/// As Kubernetes uses what was provisioned.
fn volume(created: CreateVolumeResponse) -> Volume {
    let created = created.volume.expect("a volume");
    assert!(created.volume_id.len() <= 128, "{}", created.volume_id);
    assert_eq!(created.capacity_bytes, 1 << 30);
    Volume { attributes: created.volume_context, ..Volume::new(&created.volume_id, &[]) }
}

#[test]
fn a_volume_is_a_directory_of_its_base() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    let (base, none) = (open_directory(&host), HashMap::new());
    let image = format!("dir:{}", Client::named("bindfs").image_directory().display());
    // In a definition, as the image is too long for an id.
    host.define("bindfs", &format!("image = \"{image}\""));
    let source = text(&base);
    let class = [("type", "bindfs"), ("source", source.as_str()), ("subDir", "${pvc.metadata.namespace}/${pvc.metadata.name}")];
    let mounts = mountinfo::here().len();
    let made = volume(create(&kubelet, "pvc-1", &class, &none).expect("it can be made"));
    assert_eq!(volume(create(&kubelet, "pvc-1", &class, &none).expect("and again")).id, made.id);
    assert_eq!((mountinfo::here().len(), host.list().len()), (mounts, 0), "the base was mounted only meanwhile");
    assert_eq!(fs::metadata(base.join("team/claim")).expect("its directory").permissions().mode() & 0o7777, 0o777);
    // The directory is taken.
    refused(create(&kubelet, "pvc-2", &class, &none), ALREADY_EXISTS);

    kubelet.stage(&made).expect("it can be staged");
    kubelet.publish(&made, "pod", false).expect("it can be published");
    fs::write(kubelet.target("pod").join("file"), "content").expect("it is writable");
    assert_eq!(fs::read(base.join("team/claim/file")).expect("it is in the volume's directory"), b"content");
    assert!(!kubelet.target("pod").join("team").exists() && !kubelet.target("pod").join("../../source").exists());
    kubelet.publish(&made, "pod", false).expect("and again");
    // A pod that replaces its directory by a link gets nothing by that.
    kubelet.unpublish(&made, "pod").expect("it can be unpublished");
    fs::rename(base.join("team"), base.join("moved")).expect("the server's own files");
    std::os::unix::fs::symlink("moved", base.join("team")).expect("the server's own files");
    // The kernel may remember for a second what was there.
    let refusal = |words: &str| {
        wait::until(words, || match kubelet.publish(&made, "pod", false) {
            Ok(_) => kubelet.unpublish(&made, "pod").map(|_| None).expect("it can be unpublished"),
            Err(refused) => Some(refused.1).filter(|said| said.contains(words)),
        })
    };
    refusal("symbolic link");
    fs::remove_file(base.join("team")).expect("the server's own files");
    refusal("not on the server");
    fs::rename(base.join("moved"), base.join("team")).expect("the server's own files");
    kubelet.unstage(&made).expect("it can be unstaged");

    let validate = |id: &str| {
        let message = ValidateVolumeCapabilitiesRequest {
            volume_id: id.to_owned(),
            volume_capabilities: vec![capability(Mode::SingleNodeWriter)],
            ..Default::default()
        };
        kubelet.channel().call::<ValidateVolumeCapabilitiesResponse>("/csi.v1.Controller/ValidateVolumeCapabilities", &message)
    };
    assert!(validate(&made.id).expect("it is known").confirmed.is_some());
    refused(validate("data"), NOT_FOUND);

    let outside = host.directory("outside");
    fs::write(outside.join("precious"), "").expect("a file outside");
    std::os::unix::fs::symlink(&outside, base.join("team/claim/link")).expect("a pod makes a link");
    fs::create_dir_all(base.join("team/claim/a/b")).expect("a pod makes directories");
    fs::set_permissions(base.join("team/claim/a"), fs::Permissions::from_mode(0o777)).expect("the server's own files");
    for _ in 0..2 {
        delete(&kubelet, &made.id, &none).expect("it can be deleted, and again");
    }
    assert!(!base.join("team/claim").exists() && base.join("team").exists() && outside.join("precious").exists());
    assert!(!base.join(".shorefast").exists());
    refused(validate(&made.id), NOT_FOUND);
    // Whatever else is said to be a volume is not there, which is no error; and nothing is removed.
    let elsewhere = host.directory("elsewhere/team/claim");
    for directory in [&host.path("elsewhere"), &host.path("elsewhere/team"), &elsewhere] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).expect("the test's own directory");
    }
    fs::write(elsewhere.join("file"), "precious").expect("the test's own directory");
    let of_another_base = made.id.replace(&source, &text(&host.path("elsewhere")));
    assert_ne!(of_another_base, made.id);
    for id in ["data", "../../elsewhere", &of_another_base] {
        assert_eq!(delete(&kubelet, id, &none), Ok(Empty {}), "{id}");
    }
    assert_eq!(fs::read(elsewhere.join("file")).expect("it is there"), b"precious");
    drop(kubelet);
    host.assert_nothing_left();
}

/// A server whose directory is a base, and what it takes to get in.
fn sshfs_server(host: &Host) -> (Sshd, HashMap<String, String>) {
    let server = Sshd::start(host);
    host.settle();
    host.define("sshfs", &format!("image = \"dir:{}\"", Client::named("sshfs").image_directory().display()));
    let key = fs::read_to_string(&server.key).expect("a key");
    (server, HashMap::from([("IdentityFile".to_owned(), key)]))
}

fn sshfs_class(source: &str) -> [(&str, &str); 3] {
    [("type", "sshfs"), ("source", source), ("mountOptions", "port=2222,StrictHostKeyChecking=no")]
}

#[test]
fn sshfs_as_a_base_keeps_what_it_should_keep() {
    let Some(host) = Host::new() else { return };
    let (server, secrets) = sshfs_server(&host);
    let source = server.source();
    let kubelet = Kubelet::with_driver(&host);
    let class = |on_delete| [&sshfs_class(&source)[..], &[("onDelete", on_delete)]].concat();
    for (name, on_delete, left) in [("pvc-a", "archive", "archived-pvc-a"), ("pvc-r", "retain", "pvc-r"), ("pvc-d", "delete", "")] {
        let made = volume(create(&kubelet, name, &class(on_delete), &secrets).expect("it can be made"));
        let made = Volume { secrets: secrets.clone(), ..made };
        kubelet.stage(&made).expect("it can be staged");
        kubelet.publish(&made, name, false).expect("it can be published");
        fs::create_dir(kubelet.target(name).join("directory")).expect("it is writable");
        fs::write(kubelet.target(name).join("directory/file"), "content").expect("it is writable");
        kubelet.unpublish(&made, name).expect("it can be unpublished");
        kubelet.unstage(&made).expect("it can be unstaged");
        assert!(server.share.join(name).join("directory/file").exists());
        delete(&kubelet, &made.id, &HashMap::new()).expect_err("without its key nobody gets in");
        assert!(server.share.join(name).exists());
        delete(&kubelet, &made.id, &secrets).expect("it can be deleted");
        assert_eq!(server.share.join(name).exists(), on_delete == "retain");
        assert_eq!(server.share.join(left).join("directory/file").exists(), on_delete != "delete");
    }
    assert!(!server.share.join(".shorefast").exists());
    drop(kubelet);
    host.assert_nothing_left();
}

#[test]
fn what_cannot_be_made_is_refused() {
    let Some(host) = Host::new() else { return };
    define_script(&host, "mount -t tmpfs none $1", "");
    let kubelet = Kubelet::with_driver(&host);
    let none = HashMap::new();
    let with = |more: (&'static str, &'static str)| [SCRIPT[0], SCRIPT[1], more];
    for wrong in [("subDir", "../x"), ("subDir", "${nothing}"), ("onDelete", "burn"), ("sauce", "x"), ("directoryMode", "rwx")] {
        refused(create(&kubelet, "pvc-1", &with(wrong), &none), INVALID_ARGUMENT);
    }
    refused(create(&kubelet, "", &SCRIPT, &none), INVALID_ARGUMENT);
    refused(create(&kubelet, "pvc-1", &[("type", "script"), ("source", &"x".repeat(150))], &none), INVALID_ARGUMENT);
    refused(create(&kubelet, "pvc-1", &[("type", "nosuchfs"), ("source", "x")], &none), INVALID_ARGUMENT);
    let ask = |change: &dyn Fn(&mut CreateVolumeRequest)| {
        let mut message = CreateVolumeRequest {
            name: "pvc-1".to_owned(),
            volume_capabilities: vec![capability(Mode::SingleNodeWriter)],
            parameters: SCRIPT.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..Default::default()
        };
        change(&mut message);
        kubelet.channel().call::<CreateVolumeResponse>("/csi.v1.Controller/CreateVolume", &message)
    };
    refused(ask(&|message| message.volume_capabilities.clear()), INVALID_ARGUMENT);
    refused(ask(&|message| message.volume_content_source = Some(Empty {})), INVALID_ARGUMENT);
    refused(ask(&|message| message.volume_capabilities[0].access_type = Some(AccessType::Block(Empty {}))), INVALID_ARGUMENT);
    ask(&|message| message.name = "n".repeat(128)).expect("as long as the specification allows");
    refused::<Empty>(kubelet.channel().call("/csi.v1.Controller/DeleteVolume", &DeleteVolumeRequest::default()), INVALID_ARGUMENT);
    drop(kubelet);
    host.assert_nothing_left();
}

/// The worker that touches files waits for the server, and is left behind.
#[test]
fn a_base_that_does_not_answer_holds_nobody_up() {
    let Some(host) = Host::new() else { return };
    let (server, secrets) = sshfs_server(&host);
    let source = server.source();
    let kubelet = Kubelet::with_driver(&host);
    let made = volume(create(&kubelet, "pvc-1", &sshfs_class(&source), &secrets).expect("it can be made"));
    // So many files that the server is stopped while they are removed.
    (0..3000).for_each(|number| fs::write(server.share.join(format!("pvc-1/{number}")), "").expect("the server's own files"));
    let message = DeleteVolumeRequest { volume_id: made.id.clone(), secrets: secrets.clone() };
    let channel = kubelet.channel();
    let asked = Instant::now();
    let call = channel.begin::<Empty>("/csi.v1.Controller/DeleteVolume", &message, Some("8S"));
    let client = loop {
        channel.pass_time(Duration::from_millis(5));
        let begun = fs::read_dir(server.share.join("pvc-1")).expect("its directory").count() < 3000;
        if begun {
            break host.wait_for_client("sshfs");
        }
        assert!(asked.elapsed() < Duration::from_secs(8), "nothing is removed");
    };
    let pid = rustix::process::Pid::from_raw(client.pid as i32).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("it runs");
    let late = channel.end(call).expect_err("the server does not answer");
    assert!([1, 4].contains(&late.0) && asked.elapsed() < Duration::from_secs(15), "{late:?} {:?}", asked.elapsed());
    assert!(server.share.join("pvc-1").exists());
    delete(&kubelet, &made.id, &secrets).expect("the next one goes on");
    assert!(!server.share.join("pvc-1").exists());
    drop(kubelet);
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

/// On the same filesystem the kernel would follow a mount, not a link.
#[test]
fn nothing_that_is_mounted_in_a_volume_is_removed() {
    let Some(host) = Host::new() else { return };
    let volume = host.directory("base/volume");
    let (directory, file) = (host.directory("base/volume/a/mounted"), host.file("base/volume/mounted", ""));
    let precious = host.directory("precious");
    fs::write(precious.join("file"), "").expect("a file");
    let bind = |from: &std::path::Path, to: &std::path::Path| rustix::mount::mount_bind(from, to).expect("root may mount");
    bind(&precious, &directory);
    bind(&precious.join("file"), &file);
    let base = fs::File::open(host.path("base")).expect("a directory");
    for mounted in [&file, &directory] {
        let error = shorefast_worker::base::tree::remove(base.as_fd(), OsStr::new("volume")).expect_err("something is mounted there");
        assert_eq!(error, rustix::io::Errno::XDEV);
        assert!(precious.join("file").exists());
        rustix::mount::unmount(mounted, rustix::mount::UnmountFlags::empty()).expect("the test's own mount");
    }
    shorefast_worker::base::tree::remove(base.as_fd(), OsStr::new("volume")).expect("now it can be removed");
    assert!(!volume.exists() && precious.join("file").exists());
}

#[test]
fn an_inline_volume_has_no_base() {
    let Some(host) = Host::new() else { return };
    define_script(&host, "mount -t tmpfs none $1", "");
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::new("inline", &SCRIPT).with("subDir", "somebody-elses");
    refused(kubelet.publish_inline(&volume, "pod"), PERMISSION_DENIED);
    drop(kubelet);
    host.assert_nothing_left();
}
