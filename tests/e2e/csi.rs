//! The CSI driver, as kubelet uses it: the shipped binary, real clients, calls over its socket.

#[path = "csi/service.rs"]
mod service;
#[path = "csi/provisioning.rs"]
mod provisioning;
#[path = "csi/kubelet.rs"]
mod kubelet;
#[path = "csi/channel.rs"]
mod channel;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use shorefast_csi::messages::*;
use shorefast_tests::kernel::is_guest;
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Client, Host, mountinfo};

use crate::channel::{Answer, Channel, Refused};
use crate::kubelet::{DRIVER, Kubelet, Volume, capability, text};

/// gRPC's codes.
const CANCELLED_OR_LATE: [u32; 2] = [1, 4];
const INVALID_ARGUMENT: u32 = 3;
const NOT_FOUND: u32 = 5;
const ALREADY_EXISTS: u32 = 6;
const PERMISSION_DENIED: u32 = 7;
const FAILED_PRECONDITION: u32 = 9;
const ABORTED: u32 = 10;
const UNIMPLEMENTED: u32 = 12;

#[track_caller]
fn refused<Out: std::fmt::Debug>(answer: Answer<Out>, code: u32) -> String {
    let Refused(got, said) = answer.expect_err("it is refused");
    assert_eq!(got, code, "{said}");
    said
}

#[test]
fn registers_says_what_it_is_and_ends_at_once() {
    let Some(host) = Host::new() else { return };
    let mut kubelet = Kubelet::with_driver(&host);
    let registration = Channel::open(&kubelet.registration_socket());
    let info: PluginInfo = registration.call("/pluginregistration.Registration/GetInfo", &Empty {}).expect("it says what it is");
    assert_eq!((info.kind.as_str(), info.name.as_str(), info.endpoint), ("CSIPlugin", DRIVER, text(&kubelet.socket())));
    assert_eq!(info.supported_versions, ["1.0.0"]);
    let status = RegistrationStatus { plugin_registered: false, error: "because of this".to_owned() };
    let _: Empty = registration.call("/pluginregistration.Registration/NotifyRegistrationStatus", &status).expect("it listens");

    let channel = kubelet.channel();
    let info: GetPluginInfoResponse = channel.call("/csi.v1.Identity/GetPluginInfo", &Empty {}).expect("it has a name");
    assert_eq!(info.name, DRIVER);
    assert!(!info.vendor_version.is_empty());
    let probe: ProbeResponse = channel.call("/csi.v1.Identity/Probe", &Empty {}).expect("it is ready");
    assert_eq!(probe.ready, Some(BoolValue { value: true }));
    let node: NodeGetInfoResponse = channel.call("/csi.v1.Node/NodeGetInfo", &Empty {}).expect("it knows its node");
    assert_eq!((node.node_id.as_str(), node.max_volumes_per_node), ("node-1", 0));
    let can: GetCapabilitiesResponse = channel.call("/csi.v1.Node/NodeGetCapabilities", &Empty {}).expect("it can do something");
    // What an independent test suite knows.
    assert!(can.capabilities.iter().all(|one| one.rpc.as_ref().is_some_and(|rpc| [1, 2, 3, 4, 5, 6].contains(&rpc.kind))), "{can:?}");
    refused::<Empty>(channel.call("/csi.v1.Node/NodeExpandVolume", &Empty {}), UNIMPLEMENTED);

    let (socket, registration_socket) = (kubelet.socket(), kubelet.registration_socket());
    let asked = Instant::now();
    let ended = kubelet.stop();
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    ended.exits(0).says("kubelet does not register this driver: because of this");
    assert!(!socket.exists() && !registration_socket.exists());
    host.assert_nothing_left();
}

/// A request as grpc-go sent it until 2022: the socket's path, plain or percent-encoded, as `:authority`.
#[test]
fn kubelets_from_before_1_26_are_answered() {
    let Some(host) = Host::new() else { return };
    let kubelet = Kubelet::with_driver(&host);
    let path = text(&kubelet.socket());
    for authority in [path.clone(), path.replace('/', "%2F"), "localhost".to_owned()] {
        let mut connection = UnixStream::connect(kubelet.socket()).expect("the driver listens");
        connection.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let literal = |name: &str, value: &str| [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat();
        let headers = [
            literal(":method", "POST"),
            literal(":scheme", "http"),
            literal(":path", "/csi.v1.Identity/Probe"),
            literal(":authority", &authority),
            literal("content-type", "application/grpc"),
            literal("te", "trailers"),
        ]
        .concat();
        let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
            let length = (payload.len() as u32).to_be_bytes();
            [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
        };
        let request =
            [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[]), frame(1, 4, 1, &headers), frame(0, 1, 1, &[0; 5])];
        connection.write_all(&request.concat()).expect("the driver reads");
        let answer = loop {
            let mut head = [0; 9];
            connection.read_exact(&mut head).expect("the driver answers");
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            connection.read_exact(&mut payload).expect("a whole frame");
            match head[3] {
                0 => break payload,
                3 | 7 => panic!("{authority}: reset or refused"),
                _ => {}
            }
        };
        // Ready: {1: {1: true}}.
        assert_eq!(answer, [0, 0, 0, 0, 4, 0x0a, 2, 0x08, 1], "{authority}");
    }
}

/// As in the mount table: kubelet's root is reached through a link.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).expect("it is there")
}

/// bindfs runs as a user of its own.
fn open_directory(host: &Host) -> PathBuf {
    let directory = host.directory("source");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("the test's own directory");
    directory
}

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

/// A client whose source is no path of the host, as most are.
fn define_script(host: &Host, script: &str, more_keys: &str) {
    let script = toml::Value::String(script.to_owned());
    let image = Client::named("tmpfs").image_directory();
    host.define(
        "script",
        &format!(
            "types = [\"script\"]\nkernel_types = [\"tmpfs\"]\nimage = \"dir:{}\"\n{more_keys}\ncommand = [\"sh\", \"-c\", {script}, \"sh\", \"{{target}}\", \"{{options}}\"]\n",
            image.display()
        ),
    );
}

const SCRIPT: [(&str, &str); 2] = [("type", "script"), ("source", "server:/x")];

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

const SECRET: &str = "kJ8-not-on-disk-2xQ";

#[test]
fn secrets_reach_the_client_and_nobody_else() {
    let Some(host) = Host::new() else { return };
    let script = format!(
        "f=${{2#*keyfile=}}; f=${{f%%,*}}; read -r line < $f; [ \"$line\" = {SECRET} ] || exit 9; case $2 in *user=me*) ;; *) exit 8;; esac; mount -t tmpfs none $1"
    );
    define_script(&host, &script, "files = [\"keyfile\"]\nsecret = { to_option = \"credentials\", with_options = [\"user\"] }");
    let kubelet = Kubelet::with_driver(&host);
    let volume = Volume::new("volume", &SCRIPT).with_secrets(&[("keyfile", &format!("{SECRET}\n")), ("user", "me")]);
    kubelet.stage(&volume).expect("the client has read its secret");
    for file in files_below(host.run_directory()) {
        let content = fs::read(&file).expect("root can read it");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(!contains(&content, SECRET), "{name}");
    }
    for file in ["cmdline", "environ"] {
        assert!(!contains(&fs::read(format!("/proc/{}/{file}", kubelet.pid())).expect("it runs"), SECRET));
    }
    kubelet.unstage(&volume).expect("it can be unstaged");
    let said = refused(kubelet.stage(&volume.clone().with_secrets(&[("pasword", SECRET)])), INVALID_ARGUMENT);
    assert!(said.contains("keyfile") && said.contains("pasword") && !said.contains(SECRET), "{said}");
    refused(kubelet.stage(&volume.clone().with_secrets(&[("user", "me,dev"), ("keyfile", SECRET)])), INVALID_ARGUMENT);
    let wrong = kubelet.stage(&volume.with_secrets(&[("keyfile", "wrong"), ("user", "me")])).expect_err("a wrong secret");
    assert!(wrong.1.contains("exit status 9"), "{wrong:?}");
    drop(kubelet);
    host.assert_nothing_left();
}

fn contains(content: &[u8], text: &str) -> bool {
    content.windows(text.len()).any(|window| window == text.as_bytes())
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).filter(|path| path.is_file()).collect()
}

#[test]
fn sshfs_with_its_key_in_a_secret() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    host.settle();
    host.define("sshfs", &format!("image = \"dir:{}\"\ngroup_option = \"gid\"", Client::named("sshfs").image_directory().display()));
    fs::write(server.share.join("file"), "content").expect("the share can be written to");
    let kubelet = Kubelet::with_driver(&host);
    let key = fs::read_to_string(&server.key).expect("a key");
    let source = server.source();
    let mut volume = Volume::new("volume", &[("type", "sshfs"), ("source", &source)]);
    volume = volume.with("mountOptions", "port=2222,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null");
    if let Some(AccessType::Mount(mount)) = &mut volume.capability.access_type {
        mount.volume_mount_group = "4711".to_owned();
    }
    let volume = volume.with_secrets(&[("IdentityFile", &key)]);
    kubelet.stage(&volume).expect("it can be staged");
    kubelet.publish(&volume, "pod", false).expect("it can be published");
    assert_eq!(fs::read(kubelet.target("pod").join("file")).expect("it serves"), b"content");
    let group = std::os::unix::fs::MetadataExt::gid(&fs::metadata(kubelet.target("pod").join("file")).expect("it serves"));
    assert_eq!(group, 4711);
    kubelet.unpublish(&volume, "pod").expect("it can be unpublished");
    kubelet.unstage(&volume).expect("it can be unstaged");
    // A pod's author brings the key in the same way.
    kubelet.publish_inline(&volume, "pod").expect("it can be published");
    kubelet.unpublish(&volume, "pod").expect("it can be unpublished");
    drop(kubelet);
    host.assert_nothing_left();
}

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
    let freed = shorefast_tests::wait::within(Duration::from_secs(20), || {
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
