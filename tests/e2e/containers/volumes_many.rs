//! Many containers, many clients, and servers that do not answer, with the real Docker: minutes, so `cargo xtask e2e-docker` runs them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use shorefast_tests::command::Running;
use shorefast_tests::path::text;
use shorefast_tests::runtimes::{Kind, Runtime};
use shorefast_tests::servers::{Gluster, S3, Sshd, Webdav};
use shorefast_tests::{Client, Host, client, command, mountinfo, wait};

use crate::docker::{create, docker, inspect, kill_all, processes, try_docker};
use crate::plugin::{Plugin, bindfs, bindfs_image, mountpoint};

const CONTAINERS: usize = 100;
/// Started at the same moment: the machine has two processors.
const AT_ONCE: usize = 8;

fn run_all(commands: Vec<Command>) {
    let mut commands = commands.into_iter().peekable();
    while commands.peek().is_some() {
        let running: Vec<_> = commands.by_ref().take(AT_ONCE).map(Running::start).collect();
        running.into_iter().for_each(|one| drop(one.finish().succeeds()));
    }
}

fn docker_command(words: &[&str]) -> Command {
    let mut docker = Command::new("docker");
    docker.args(words);
    docker
}

#[test]
#[ignore = "takes minutes: `cargo xtask e2e-docker`"]
fn a_hundred_containers_share_one_client_and_one_mount() {
    let Some(host) = Host::new() else { return };
    let runtime = Runtime::start(&host, Kind::Docker);
    let plugin = Plugin::start(&host);
    let source = host.directory("source");
    create("vol", &bindfs(&source));
    let ours = || mountinfo::here().into_iter().filter(|mount| mount.point.starts_with("/var/lib/shorefast")).count();
    assert_eq!(ours(), 0);
    let names: Vec<_> = (0..CONTAINERS).map(|number| format!("c{number}")).collect();
    let run = |name: &String| {
        let script = "echo $0 > /data/$0; exec sleep 1000";
        docker_command(&["run", "--detach", "--network=host", "--name", name, "-v", "vol:/data", "clients", "sh", "-c", script, name])
    };
    run_all(names.iter().map(run).collect());
    assert_eq!((ours(), host.list().len(), processes("bindfs").len()), (1, 1, 1), "one mount, one client");
    assert_eq!(plugin.status("vol")["users"], CONTAINERS);
    assert_eq!(fs::read_dir(&source).expect("the test's own").count(), CONTAINERS, "each has written its file");
    assert_eq!(docker(&["exec", "c0", "cat", "/data/c99"]), "c99");
    run_all(names.iter().map(|name| docker_command(&["rm", "--force", name])).collect());
    assert_eq!((ours(), host.list().len(), processes("bindfs").len()), (0, 0, 0));
    docker(&["volume", "rm", "vol"]);
    drop((runtime, plugin));
}

/// As a host has them: some clients from images that are there, some from packages that are fetched with the first mount.
#[test]
#[ignore = "takes minutes: `cargo xtask e2e-docker`"]
fn volumes_of_ten_clients_at_once() {
    let Some(host) = Host::new() else { return };
    let (sshd, s3, gluster, webdav) = (Sshd::start(&host), S3::start(&host), Gluster::start(&host), Webdav::start(&host));
    host.offer_packages_of(&client::catalogue_packages());
    let runtime = Runtime::start(&host, Kind::Docker);
    let plugin = Plugin::start(&host);
    let directory = |name: &str| {
        let path = host.directory(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("the test's own directory");
        text(&path).to_owned()
    };
    let image = |name: &'static str| format!("dir:{}", Client::named(name).image_directory().display());
    let configuration = host.file("rclone.conf", format!("[dav]\ntype = webdav\nurl = {}\n", webdav.url()));
    let rclone = format!("config={},dir_cache_time=0s", text(&configuration));
    let s3_options = format!("url=http://{},use_path_request_style,passwd_file={}", s3.address, s3.password_file.display());
    let disk = text(&host.path("disk")).to_owned();
    command::run(&["truncate", "-s", "8M", &disk]);
    command::run(&["mke2fs", "-q", "-t", "ext4", &disk]);
    let archive = directory("archive") + "/plain.tar";
    command::run(&["tar", "-cf", &archive, "-C", "/etc", "hostname"]);
    fs::set_permissions(&archive, fs::Permissions::from_mode(0o666)).expect("the test's own file");
    let volumes: [(&str, Value); 10] = [
        ("sshfs", json!({ "device": sshd.source(), "o": sshd.options(), "image": image("sshfs") })),
        ("s3fs", json!({ "device": s3.source(), "o": s3_options, "image": image("s3fs") })),
        ("glusterfs", json!({ "device": gluster.source(), "image": image("glusterfs") })),
        ("rclone", json!({ "device": "dav:", "o": rclone, "image": image("rclone") })),
        ("davfs", json!({ "device": webdav.url(), "image": image("davfs2") })),
        ("bindfs", json!({ "device": directory("bound"), "image": bindfs_image() })),
        ("disorderfs", json!({ "device": directory("disordered") })),
        ("posixovl", json!({ "device": directory("posix") })),
        ("fuse2fs", json!({ "device": disk })),
        ("archivemount", json!({ "device": archive })),
    ];
    for (fstype, options) in &volumes {
        let mut options = options.clone();
        options["type"] = (*fstype).into();
        create(&format!("v-{fstype}"), &options);
    }
    let run = |(fstype, _): &(&str, Value)| {
        let volume = format!("v-{fstype}:/data");
        let script = "echo $0 > /data/file-$0 && exec sleep 1000";
        docker_command(&["run", "--detach", "--network=host", "--name", fstype, "-v", &volume, "clients", "sh", "-c", script, fstype])
    };
    let running: Vec<_> = volumes.iter().map(run).map(Running::start).collect();
    running.into_iter().for_each(|one| drop(one.finish().succeeds()));
    for (fstype, _) in &volumes {
        let status = inspect(&format!("v-{fstype}"))["Status"].clone();
        assert_eq!((&status["state"], &status["client"]), (&"serving".into(), &(*fstype).into()), "{status}");
        let read = || try_docker(&["exec", fstype, "cat", &format!("/data/file-{fstype}")]).stdout;
        wait::until(fstype, || (read().trim() == *fstype).then_some(()));
    }
    assert_eq!(host.list().len(), volumes.len());
    for (fstype, _) in &volumes {
        docker(&["rm", "--force", fstype]);
    }
    wait::until("all to be unmounted", || host.list().is_empty().then_some(()));
    // What was written is there the next time.
    let again = docker(&["run", "--rm", "--network=host", "-v", "v-archivemount:/data", "clients", "cat", "/data/file-archivemount"]);
    assert_eq!(again, "archivemount");
    for (fstype, _) in &volumes {
        docker(&["volume", "rm", &format!("v-{fstype}")]);
    }
    assert_eq!(plugin.names(), Vec::<String>::new());
    drop((runtime, plugin));
}

/// A server that takes connections, and says nothing.
#[test]
#[ignore = "takes minutes: `cargo xtask e2e-docker`"]
fn with_a_dead_server_docker_waits_for_nothing_longer_than_it_has_to() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    host.define("sshfs", &format!("image = \"dir:{}\"", Client::named("sshfs").image_directory().display()));
    let runtime = Runtime::start(&host, Kind::Docker);
    let plugin = Plugin::start(&host);
    let options = json!({ "type": "sshfs", "device": server.source(), "o": server.options() });
    create("mounted", &options);
    runtime.run_with(&host, "user", &["-v", "mounted:/data"], &["sleep", "1000"]);
    processes("sshd").iter().for_each(|process| process.signal(Signal::STOP));
    // Somebody in the container waits for it, as containers do.
    docker(&["exec", "--detach", "user", "ls", "/data"]);
    let within = |seconds: u64, what: &str, act: &dyn Fn()| {
        let began = Instant::now();
        act();
        let took = began.elapsed();
        println!("{what}: {took:.1?}");
        assert!(took < Duration::from_secs(seconds), "{what} took {took:?}");
    };
    within(3, "create", &|| create("new", &options));
    within(3, "volume ls", &|| assert!(docker(&["volume", "ls", "--quiet"]).contains("mounted")));
    within(3, "volume inspect", &|| assert_eq!(inspect("mounted")["Status"]["users"], 1));
    within(90, "run", &|| {
        let ran = try_docker(&["run", "--rm", "--network=host", "-v", "new:/data", "clients", "true"]);
        assert_eq!(ran.code, Some(125), "{ran:?}");
    });
    assert!(inspect("new")["Status"]["error"].is_string());
    within(3, "volume rm", &|| drop(docker(&["volume", "rm", "new"])));
    // A process that waits for a FUSE client cannot be killed: the kernel's rule. Docker says so, until the plugin has ended the wait.
    let removed = || try_docker(&["rm", "--force", "user"]).code == Some(0);
    within(40, "rm of a container that waits", &|| wait::until("Docker to see its end", || removed().then_some(())));
    assert!(mountinfo::at(mountpoint("mounted")).is_empty());
    within(10, "volume rm", &|| drop(docker(&["volume", "rm", "mounted"])));
    kill_all("sshd");
    drop((runtime, plugin));
}
