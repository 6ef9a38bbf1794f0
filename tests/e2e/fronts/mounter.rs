//! kubelet's mounter: what kubelet says, what it gets to hear, and what is left of it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use shorefast_tests::cgroups::Group;
use shorefast_tests::command::{self, Running};
use shorefast_tests::servers::Gluster;
use shorefast_tests::{Host, Ran, mountinfo, wait};

use crate::{script, text, with_image};

/// As kubelet calls it: no terminal, both outputs into one pipe each, and it waits until both end.
fn call<S: AsRef<OsStr>>(mounter: &Path, arguments: &[S]) -> Ran {
    let mut command = Command::new(mounter);
    command.args(arguments);
    command::finish(command)
}

/// As kubelet calls it where it is a service.
fn called_in(service: &Group, mounter: &Path, arguments: &[&str]) -> Command {
    let words = service.run();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg(mounter).args(arguments);
    command
}

#[test]
fn a_link_and_a_copy_at_any_path_are_the_mounter() {
    let Some(host) = Host::new() else { return };
    host.define("bindfs", &with_image("bindfs"));
    let link = host.install("kubernetes/link/mounter");
    let copy = host.directory("kubernetes/copy").join("mounter");
    fs::copy(host.binary(), &copy).expect("the binary can be copied");
    let (source, target) = (host.directory("source"), host.directory("target"));
    host.settle();
    for mounter in [link, copy] {
        let ran = call(&mounter, &["mount", "-t", "bindfs", "-o", "ro", text(&source), text(&target)]).succeeds();
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
        let [mount] = &mountinfo::at(&target)[..] else { panic!("not one mount") };
        assert!(mount.has("ro"), "{mount:?}");
        // kubelet unmounts without us.
        command::run(&["umount", text(&target)]);
        host.assert_nothing_left();
    }
}

#[test]
fn what_no_client_lists_goes_to_mount() {
    let Some(host) = Host::new() else { return };
    let mounter = host.install("kubernetes/mounter");
    let (source, target) = (host.directory("source"), host.directory("target"));
    host.settle();
    let rows: [(&str, &[&str]); 5] = [
        ("a filesystem of the kernel", &["mount", "-t", "tmpfs", "-o", "size=1m", "none", "/srv/target"]),
        ("the order of mount(8)", &["mount", "none", "/srv/target", "-t", "tmpfs"]),
        ("without the first word, as in 1.5", &["-t", "tmpfs", "none", "/srv/target"]),
        ("a bind of a type that has a client", &["mount", "-t", "bindfs", "-o", "bind", text(&source), "/srv/target"]),
        ("a bind by flag", &["mount", "--no-canonicalize", "--bind", text(&source), "/srv/target"]),
    ];
    for (name, arguments) in rows {
        let ran = call(&mounter, arguments);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        assert_eq!(mountinfo::at(&target).len(), 1, "{name}");
        assert!(host.list().is_empty(), "{name}: a mount of ours");
        command::run(&["umount", text(&target)]);
        host.assert_nothing_left();
    }
    let ran = call(&mounter, &["mount", "-t", "no-such-filesystem", "none", "/srv/target"]).exits(32);
    assert!(ran.stderr.contains("mount: /srv/target:"), "not mount(8)'s own words: {}", ran.stderr);
}

#[test]
fn a_call_that_lacks_something_says_what_and_changes_nothing() {
    let Some(host) = Host::new() else { return };
    host.define("bindfs", &with_image("bindfs"));
    let mounter = host.install("kubernetes/mounter");
    host.directory("target");
    host.settle();
    let rows: [(&str, &[&str], i32, &str); 7] = [
        ("no target", &["mount", "-t", "bindfs", "/srv"], 1, "a source and a target"),
        ("neither", &["mount", "-t", "bindfs"], 1, "a source and a target"),
        ("too many", &["mount", "-t", "bindfs", "a", "b", "c"], 1, "a source and a target"),
        ("a type without a word", &["mount", "-t"], 1, "-t"),
        ("an unknown flag", &["mount", "--frobnicate", "-t", "bindfs", "/srv", "/srv/target"], 1, "--frobnicate"),
        ("a target that is not there", &["mount", "-t", "bindfs", "/srv", "/srv/missing"], 32, "/srv/missing"),
        ("options that cannot be read", &["mount", "-t", "bindfs", "-o", "a=\"b", "/srv", "/srv/target"], 1, "quote"),
    ];
    for (name, arguments, code, part) in rows {
        let ran = call(&mounter, arguments);
        assert_eq!(ran.code, Some(code), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(part) && ran.stdout.is_empty(), "{name}: {ran:?}");
        assert_eq!(mountinfo::at("/srv/target"), [], "{name}");
        host.assert_nothing_left();
    }
    let ran = call(&mounter, &[""; 0]);
    assert_ne!(ran.code, Some(0));
    host.assert_nothing_left();
}

#[test]
fn what_serves_a_mount_outlives_the_service_that_asked_for_it() {
    let Some(host) = Host::new() else { return };
    host.define("bindfs", &with_image("bindfs"));
    let mounter = host.install("kubernetes/mounter");
    let (source, target) = (host.directory("source"), host.directory("target"));
    host.settle();
    let kubelet = Group::make();
    command::finish(called_in(&kubelet, &mounter, &["mount", "-t", "bindfs", text(&source), text(&target)])).succeeds();

    let ours: Vec<_> = shorefast_tests::processes::on_this_network();
    assert!(ours.len() >= 3, "a keeper, an init and a daemon: {ours:?}");
    for process in ours {
        assert!(!kubelet.holds(&process), "{} is in the caller's group", process.describe());
    }
    kubelet.kill_all();
    fs::write(source.join("file"), "still there").expect("the source can be written to");
    assert_eq!(fs::read(target.join("file")).expect("the mount is served"), b"still there");
    command::run(&["umount", text(&target)]);
    host.assert_nothing_left();
}

#[test]
fn in_a_services_group_it_fails_and_ends_as_anywhere() {
    let Some(host) = Host::new() else { return };
    let mounter = host.install("kubernetes/mounter");
    let target = host.directory("target");
    let arguments = ["mount", "-t", "script", "none", text(&target)];
    let kubelet = Group::make();
    host.define("script", &script("echo no such export >&2; exit 1"));
    host.settle();
    let ran = command::finish(called_in(&kubelet, &mounter, &arguments)).exits(32);
    assert!(ran.stderr.contains("no such export"), "{}", ran.stderr);

    host.define("script", &script("exec sleep 1000"));
    let mut running = Running::start(called_in(&kubelet, &mounter, &arguments));
    host.wait_for_client("sleep");
    running.kill();
    assert_eq!(running.finish().code, None);
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn the_clusters_name_servers_are_the_clients() {
    let Some(host) = Host::new() else { return };
    host.define("script", &script("cat /etc/resolv.conf >&2; exit 1"));
    let mounter = host.install("kubernetes/mounter");
    let target = host.directory("target");
    let arguments = ["mount", "-t", "script", "none", text(&target)];
    let beside = host.directory("kubernetes/rootfs/etc").join("resolv.conf");
    fs::write("/etc/resolv.conf", "nameserver 192.0.2.1\n").expect("/etc is the test's own");
    let ran = call(&mounter, &arguments).exits(32);
    assert!(ran.stderr.contains("192.0.2.1"), "{}", ran.stderr);
    fs::write(&beside, "search default.svc.cluster.local\nnameserver 10.254.0.10\n").expect("a directory of the test's own");
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).expect("a file of the test's own");
    let ran = call(&mounter, &arguments).exits(32);
    assert!(ran.stderr.contains("nameserver 10.254.0.10") && !ran.stderr.contains("192.0.2.1"), "{}", ran.stderr);
    host.assert_nothing_left();
}

#[test]
fn a_server_that_hangs_is_bounded_by_our_own_deadline() {
    let Some(host) = Host::new() else { return };
    host.define("script", &script("echo waiting for the server >&2; sleep 600"));
    let mounter = host.install("kubernetes/mounter");
    let mut command = Command::new(mounter);
    // kubelet hides sensitive options from its logs, not from us; the event is for everybody to see.
    command.args(["mount", "-t", "script", "-o", "user=me,password=hunter2", "none", text(&host.directory("target"))]);
    command.env("SHOREFAST_TIMEOUT", "1s");
    let ran = command::finish(command).exits(32);
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    assert!(ran.took < Duration::from_secs(20), "{:?}", ran.took);
    assert!(ran.stderr.contains("not done after 1 s") && ran.stderr.contains("waiting for the server"), "{}", ran.stderr);
    host.assert_nothing_left();
}

#[test]
fn glusterfs_as_kubelet_mounts_it() {
    let Some(host) = Host::new() else { return };
    let server = Gluster::start(&host);
    host.offer_packages();
    let mounter = host.install("kubernetes/mounter");
    // Nobody has defined anything: client and image are built in.
    let mount = |options: &str, source: &str, target: &Path| {
        let mut command = Command::new(&mounter);
        command
            .args(["mount", "-t", "glusterfs", "-o", options, source, text(target)])
            .env("SHOREFAST_ROOT", shorefast_tests::client::store());
        command::finish(command)
    };
    let (one, two) =
        (host.directory("pods/1/volumes/kubernetes.io~glusterfs/v"), host.directory("pods/2/volumes/kubernetes.io~glusterfs/v"));
    host.settle();
    let (address, _) = server.source().split_once(":/").map(|(address, volume)| (address.to_owned(), volume.to_owned())).expect("a source");
    let options = |more: &str| {
        format!(
            "auto_unmount,backup-volfile-servers={address}:192.0.2.9,log-file=/var/lib/kubelet/plugins/kubernetes.io/glusterfs/v/pod-glusterfs.log,log-level=ERROR{more}"
        )
    };
    let source = format!("{address}:v0");
    mount(&options(""), &source, &one).succeeds();
    mount(&options(",ro"), &source, &two).succeeds();
    fs::write(one.join("file"), "shared").expect("the first can be written to");
    assert_eq!(fs::read(two.join("file")).expect("the second sees it"), b"shared");
    assert!(fs::write(two.join("file"), "").is_err(), "a read-only mount was written to");
    assert_eq!(fs::read(server.brick.join("file")).expect("the server has it"), b"shared");

    let wrong = host.directory("wrong");
    let ran = mount(&options(""), &format!("{address}:no-such-volume"), &wrong);
    assert!(matches!(ran.code, Some(1 | 32)), "{ran:?}");
    assert!(ran.stderr.contains("no-such-volume"), "does not name the volume: {}", ran.stderr);
    assert_eq!(mountinfo::at(&wrong), []);

    for target in [one, two] {
        command::run(&["umount", text(&target)]);
        wait::until("the mount to be gone", || mountinfo::at(&target).is_empty().then_some(()));
    }
    host.assert_nothing_left();
}

#[test]
fn nfs_reaches_the_client_or_says_what_the_kernel_lacks() {
    let Some(host) = Host::new() else { return };
    host.offer_packages();
    let mounter = host.install("kubernetes/mounter");
    let target = host.directory("target");
    let mut command = Command::new(mounter);
    command.args(["mount", "-t", "nfs", "-o", "vers=4,soft,retry=0", "127.0.0.1:/export", text(&target)]);
    let ran = command::finish({
        command.env("SHOREFAST_ROOT", shorefast_tests::client::store()).env("SHOREFAST_TIMEOUT", "30s");
        command
    });
    let has_nfs = fs::read_to_string("/proc/filesystems").expect("/proc can be read").lines().any(|line| line.ends_with("\tnfs"));
    ran.exits(32).says(if has_nfs { "mount.nfs:" } else { "this kernel has no filesystem nfs" });
    assert_eq!(mountinfo::at(&target), []);
    host.assert_nothing_left();
}
