//! Volumes in real containers of the real Docker.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::{Value, json};
use shorefast_tests::path::text;
use shorefast_tests::processes::{self, Process};
use shorefast_tests::runtimes::{Kind, Runtime};
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Client, Host, Ran, command, mountinfo, wait};

use crate::plugin::{Plugin, STATE, bindfs, bindfs_image, mountpoint};

fn try_docker(words: &[&str]) -> Ran {
    let mut docker = Command::new("docker");
    docker.args(words);
    command::finish(docker)
}

#[track_caller]
fn docker(words: &[&str]) -> String {
    try_docker(words).succeeds().stdout.trim().to_owned()
}

#[track_caller]
fn inspect(volume: &str) -> Value {
    serde_json::from_str::<Value>(&docker(&["volume", "inspect", volume])).expect("JSON")[0].clone()
}

/// Runs a shell in a container with a volume.
#[track_caller]
fn shell(volume: &str, script: &str) -> String {
    docker(&["run", "--rm", "--network=host", "-v", &format!("{volume}:/data"), "clients", "sh", "-c", script])
}

#[test]
fn sshfs_and_bindfs_volumes_with_the_words_of_dockers_own_driver() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    host.define("sshfs", &format!("image = \"dir:{}\"", Client::named("sshfs").image_directory().display()));
    fs::write(server.share.join("file"), "from the server").expect("the share can be written to");
    let runtime = Runtime::start(&host, Kind::Docker);
    let plugin = Plugin::start(&host);

    let (device, options) = (format!("device={}", server.source()), format!("o={}", server.options()));
    docker(&["volume", "create", "-d", "shorefast", "-o", "type=sshfs", "-o", &device, "-o", &options, "remote"]);
    assert_eq!(shell("remote", "cat /data/file"), "from the server");
    shell("remote", "echo from a container > /data/new");
    assert_eq!(fs::read_to_string(server.share.join("new")).expect("it arrived"), "from a container\n");
    assert!(host.list().is_empty(), "unmounted after the last container");
    let shown = inspect("remote");
    assert_eq!((&shown["Driver"], &shown["Status"]["state"]), (&"shorefast".into(), &"unmounted".into()), "{shown}");
    assert_eq!(shown["Mountpoint"], text(&mountpoint("remote")));

    // As a compose file with two services that share a volume has it: created with its first use, by options of the mount.
    let source = host.directory("source");
    bindfs(&source);
    let share = format!(
        "type=volume,volume-driver=shorefast,source=shared,target=/data,volume-opt=type=bindfs,volume-opt=device={},volume-opt=image={}",
        text(&source),
        bindfs_image()
    );
    let before = mountinfo::here().len();
    runtime.run_with(&host, "writer", &["--mount", &share], &["sh", "-c", "echo shared > /data/file; exec sleep 1000"]);
    runtime.run_with(&host, "reader", &["--mount", "type=volume,source=shared,target=/data,readonly"], &["sleep", "1000"]);
    assert_eq!(docker(&["exec", "reader", "cat", "/data/file"]), "shared");
    try_docker(&["exec", "reader", "touch", "/data/x"]).exits(1).says("Read-only");
    assert_eq!(host.list().len(), 1, "one client for both");
    let ours = mountinfo::here().into_iter().filter(|mount| mount.point.starts_with("/var/lib/shorefast")).count();
    assert_eq!(ours, 1, "of {} mounts, {before} before", mountinfo::here().len());
    let status = inspect("shared")["Status"].clone();
    assert_eq!((&status["state"], &status["client"], &status["users"]), (&"serving".into(), &"bindfs".into(), &2.into()), "{status}");
    let listed = docker(&["volume", "ls", "--format={{.Driver}} {{.Name}}"]);
    assert!(listed.contains("shorefast remote") && listed.contains("shorefast shared"), "{listed}");
    try_docker(&["volume", "rm", "shared"]).exits(1).says("in use");

    runtime.remove("writer");
    assert_eq!(docker(&["exec", "reader", "cat", "/data/file"]), "shared");
    runtime.remove("reader");
    assert!(mountinfo::at(mountpoint("shared")).is_empty());
    docker(&["volume", "rm", "shared", "remote"]);
    assert_eq!(fs::read_to_string(source.join("file")).expect("the data stay"), "shared\n");

    // What cannot be is said, by Docker, in our words.
    let refused = try_docker(&["volume", "create", "-d", "shorefast", "-o", "type=sshsf", "-o", "device=x", "wrong"]);
    refused.exits(1).says("did you mean sshfs?");
    let wrong = format!("o={}", server.options().replace("port=2222", "port=2223"));
    docker(&["volume", "create", "-d", "shorefast", "-o", "type=sshfs", "-o", &device, "-o", &wrong, "closed"]);
    let refused = try_docker(&["run", "--rm", "--network=host", "-v", "closed:/data", "clients", "true"]);
    refused.exits(125).says("Connection refused");
    assert!(inspect("closed")["Status"]["error"].as_str().is_some_and(|error| error.contains("Connection refused")));
    docker(&["volume", "rm", "closed"]);
    drop((runtime, plugin));
}

fn dockerd() -> Process {
    let is_it = |process: &Process| process.status("Name").as_deref() == Some("dockerd");
    processes::on_this_network().into_iter().find(is_it).expect("dockerd runs")
}

/// As if all its users had come long ago.
fn forget_time(volume: &str) {
    let directories = fs::read_dir(Path::new(STATE).join(volume)).expect("a volume").flatten().map(|entry| entry.path());
    for directory in directories.filter(|path| path.to_string_lossy().contains("users-")) {
        for user in fs::read_dir(directory).expect("users").flatten() {
            let file = fs::OpenOptions::new().write(true).open(user.path()).expect("a user");
            file.set_modified(SystemTime::now() - Duration::from_secs(600)).expect("our own file");
        }
    }
}

#[test]
fn containers_keep_their_volumes_whoever_is_killed() {
    let Some(host) = Host::new() else { return };
    let mut runtime = Runtime::start(&host, Kind::Docker);
    let mut plugin = Plugin::start(&host);
    let source = host.directory("source");
    let options = bindfs(&source);
    let words = |key: &str| format!("{key}={}", options[key].as_str().expect("text"));
    docker(&["volume", "create", "-d", "shorefast", "-o", &words("type"), "-o", &words("device"), "-o", &words("image"), "vol"]);
    // It counts what fails, and goes on.
    let script = "i=0; f=0; while :; do i=$((i+1)); echo $i > /data/n 2>/dev/null || f=$((f+1)); echo $i $f > /tmp/count; done";
    runtime.run_with(&host, "worker", &["-v", "vol:/data"], &["sh", "-c", script]);
    let count = || {
        let text = wait::until("a count", || Some(docker(&["exec", "worker", "cat", "/tmp/count"])).filter(|text| text.contains(' ')));
        let (done, failed) = text.split_once(' ').expect("two numbers");
        (done.parse::<u64>().expect("a number"), failed.to_owned())
    };

    // Us: killed and started again; replaced; and asked meanwhile.
    plugin.kill();
    assert_eq!(count().1, "0");
    plugin.serve();
    let (_, predecessor) = plugin.serve();
    crate::plugin::terminate(predecessor.as_ref().expect("one served"));
    drop(predecessor.map(command::Running::finish));
    let before = count().0;
    wait::until("more work", || (count().0 > before).then_some(()));
    assert_eq!((count().1.as_str(), &plugin.status("vol")["users"]), ("0", &1.into()));
    // Docker finds the new one by itself.
    runtime.run_with(&host, "second", &["-v", "vol:/data"], &["sleep", "1000"]);
    assert_eq!(plugin.status("vol")["users"], 2);
    runtime.remove("second");
    assert_eq!((host.list().len(), &plugin.status("vol")["users"]), (1, &1.into()));

    // Docker: killed, and its containers with it, of which it never tells us; then started again, with us away.
    dockerd().signal(Signal::KILL);
    runtime.end();
    plugin.kill();
    drop(runtime);
    // Nobody reaps it here, so the next one would take it for alive.
    fs::remove_file("/run/docker/containerd/containerd.pid").expect("Docker's own containerd");
    let runtime = Runtime::start(&host, Kind::Docker);
    plugin.serve();
    docker(&["rm", "--force", "worker"]);
    assert_eq!((host.list().len(), &plugin.status("vol")["users"]), (1, &1.into()), "what nobody has said is not known");
    forget_time("vol");
    runtime.run_with(&host, "third", &["-v", "vol:/data"], &["sleep", "1000"]);
    runtime.run_with(&host, "fourth", &["-v", "vol:/data"], &["sleep", "1000"]);
    runtime.remove("fourth");
    assert_eq!(host.list().len(), 1, "the third still uses it");
    forget_time("vol");
    runtime.remove("third");
    assert!(host.list().is_empty(), "{:?}", host.list());
    docker(&["volume", "rm", "vol"]);
    drop((runtime, plugin));
}

/// The shipped configuration, with the binary of these tests, which is not static, and a way to their images.
fn plugin_directory(host: &Host, shown: &[&Path]) -> PathBuf {
    let directory = host.directory("plugin");
    for path in ["rootfs/run/docker/plugins", "rootfs/var/lib/shorefast/docker", "rootfs/etc", "rootfs/proc", "rootfs/sys", "rootfs/dev"] {
        host.directory(Path::new("plugin").join(path));
    }
    let libraries = command::run(&["ldd", text(host.binary())]).stdout;
    let libraries: Vec<_> = libraries.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect();
    for (from, to) in libraries.iter().map(|file| (file.as_str(), file.trim_start_matches('/'))).chain([(text(host.binary()), "shorefast")])
    {
        let to = directory.join("rootfs").join(to);
        fs::create_dir_all(to.parent().expect("a directory")).and_then(|()| fs::copy(from, to)).expect("the test's own directory");
    }
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/docker-plugin/config.json");
    let mut configuration: Value = serde_json::from_slice(&fs::read(shipped).expect("it is shipped")).expect("JSON");
    let mounts = configuration["mounts"].as_array_mut().expect("a list");
    for path in shown {
        mounts.push(json!({ "source": text(path), "destination": text(path), "type": "bind", "options": ["rbind"] }));
    }
    fs::write(directory.join("config.json"), configuration.to_string()).expect("the test's own directory");
    directory
}

#[test]
fn a_managed_plugin_has_the_same_volumes() {
    let Some(host) = Host::new() else { return };
    let runtime = Runtime::start(&host, Kind::Docker);
    fs::create_dir_all("/etc/shorefast").expect("/etc is the test's own");
    let source = host.directory("source");
    let options = bindfs(&source);
    let images = shorefast_tests::client::images();
    let directory = plugin_directory(&host, &[&images, &source]);
    docker(&["plugin", "create", "test/shorefast", text(&directory)]);
    docker(&["plugin", "enable", "test/shorefast"]);
    let words = |key: &str| format!("{key}={}", options[key].as_str().expect("text"));
    let create =
        ["volume", "create", "-d", "test/shorefast", "-o", &words("type"), "-o", &words("device"), "-o", &words("image"), "managed"];
    docker(&create);
    runtime.run_with(&host, "first", &["-v", "managed:/data"], &["sleep", "1000"]);
    assert_eq!(shell("managed", "echo shared > /data/file; cat /data/file"), "shared");
    assert_eq!(docker(&["exec", "first", "cat", "/data/file"]), "shared");
    assert_eq!(fs::read_to_string(source.join("file")).expect("it arrived"), "shared\n");
    let status = inspect("managed")["Status"].clone();
    assert_eq!((&status["state"], &status["users"]), (&"serving".into(), &1.into()), "{status}");
    try_docker(&["plugin", "disable", "test/shorefast"]).exits(1).says("in use");
    runtime.remove("first");
    docker(&["volume", "rm", "managed"]);
    docker(&["plugin", "disable", "test/shorefast"]);
    docker(&["plugin", "rm", "test/shorefast"]);
    drop(runtime);
}
