//! Volumes in containers of the real Podman.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use shorefast_tests::path::text;
use shorefast_tests::runtimes::Runtime;
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Client, Host, Ran, command, mountinfo, wait};

use crate::docker::{create_words, kill_all};
use crate::plugin::{Plugin, SOCKET, bindfs, define_script, mountpoint, terminate};
use crate::work::Worker;

fn try_podman(words: &[&str]) -> Ran {
    let mut podman = Command::new("podman");
    podman.args(words);
    command::finish(podman)
}

#[track_caller]
fn podman(words: &[&str]) -> String {
    try_podman(words).succeeds().stdout.trim().to_owned()
}

#[track_caller]
fn create(name: &str, options: &Value) -> Ran {
    let words = create_words(options);
    try_podman(&words.iter().map(String::as_str).chain([name]).collect::<Vec<_>>())
}

#[track_caller]
fn inspect(volume: &str) -> Value {
    serde_json::from_str::<Value>(&podman(&["volume", "inspect", volume])).expect("JSON")[0].clone()
}

fn run_once(volume: &str) -> Ran {
    let limits = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096", "--network=host", "--pull=never"];
    try_podman(&[&["run", "--rm", "-v", &format!("{volume}:/data")], &limits[..], &["clients", "true"]].concat())
}

/// As docs/DOCKER.md says; `more` goes into `[engine]`.
fn start(host: &Host, more: &str) -> Runtime {
    let runtime = Runtime::podman_with_image(host);
    let file = fs::OpenOptions::new().append(true).open("/etc/containers/containers.conf");
    let lines = format!("{more}\n[engine.volume_plugins]\nshorefast = \"{SOCKET}\"\n");
    file.and_then(|mut file| file.write_all(lines.as_bytes())).expect("it was written for this test");
    runtime
}

#[test]
fn podman_has_the_same_volumes() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    host.define("sshfs", &format!("image = \"dir:{}\"", Client::named("sshfs").image_directory().display()));
    fs::write(server.share.join("file"), "from the server").expect("the share can be written to");
    let runtime = start(&host, "");
    let plugin = Plugin::start(&host);
    let remote = serde_json::json!({ "type": "sshfs", "device": server.source(), "o": server.options() });
    create("remote", &remote).succeeds();
    assert_eq!((plugin.names(), host.list().len()), (vec!["remote".to_owned()], 0));
    runtime.run_with(&host, "writer", &["-v", "remote:/data"], &["sh", "-c", "echo shared > /data/new; exec sleep 1000"]);
    let mount = ["--mount", "type=volume,source=remote,target=/data,ro"];
    runtime.run_with(&host, "reader", &mount, &["sleep", "1000"]);
    assert_eq!(podman(&["exec", "reader", "cat", "/data/file", "/data/new"]), "from the servershared");
    assert_ne!(try_podman(&["exec", "reader", "touch", "/data/x"]).code, Some(0), "it is read-only");
    assert_eq!((host.list().len(), mountinfo::at(mountpoint("remote")).len()), (1, 1), "one client for both");
    let shown = inspect("remote");
    assert_eq!((&shown["Driver"], &shown["Status"]["state"]), (&"shorefast".into(), &"serving".into()), "{shown}");
    try_podman(&["volume", "rm", "remote"]).exits(2).says("being used");
    runtime.remove("writer");
    assert_eq!(podman(&["exec", "reader", "cat", "/data/new"]), "shared");
    runtime.remove("reader");
    assert!(host.list().is_empty() && mountinfo::at(mountpoint("remote")).is_empty());
    assert_eq!(inspect("remote")["Status"]["state"], "unmounted");
    podman(&["volume", "rm", "remote"]);
    assert_eq!(plugin.names(), Vec::<String>::new());
    assert!(server.share.join("new").exists(), "what a volume holds is its server's");

    // What cannot be is said, by Podman, in our words.
    let mut wrong = remote.clone();
    wrong["type"] = "sshsf".into();
    create("wrong", &wrong).exits(125).says("did you mean sshfs?");
    wrong = remote.clone();
    wrong["o"] = server.options().replace("port=2222", "port=2223").into();
    create("closed", &wrong).succeeds();
    run_once("closed").exits(126).says("Connection refused");
    podman(&["volume", "rm", "--force", "closed"]);
    drop((runtime, plugin));
}

/// The plugin, replaced and killed with -9; Podman's own processes; and the machine.
#[test]
fn containers_of_podman_keep_their_volumes_whoever_is_killed() {
    let Some(host) = Host::new() else { return };
    let runtime = start(&host, "");
    let mut plugin = Plugin::start(&host);
    create("vol", &bindfs(&host.directory("source"))).succeeds();
    let worker = Worker::start(&host, &runtime, "podman", "worker", &["-v", "vol:/data"]);
    plugin.kill();
    worker.assert_unharmed();
    // Without it Podman says so, and does not wait.
    let asked = Instant::now();
    try_podman(&["volume", "ls", "--quiet"]).exits(125).says("plugin");
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    plugin.serve();
    let (_, predecessor) = plugin.serve();
    let predecessor = predecessor.expect("one served");
    terminate(&predecessor);
    predecessor.finish().exits(0);
    worker.assert_unharmed();
    runtime.run_with(&host, "second", &["-v", "vol:/data"], &["sleep", "1000"]);
    assert_eq!((&plugin.status("vol")["users"], host.list().len()), (&1.into(), 1), "Podman counts its containers itself");
    runtime.remove("second");
    worker.assert_unharmed();

    // What stands above a container; the container goes on, and its end is Podman's to see.
    kill_all("conmon");
    assert_eq!(host.list().len(), 1);
    podman(&["rm", "--force", "--time=0", "worker"]);
    wait::until("the last user to go", || host.list().is_empty().then_some(()));
    podman(&["volume", "rm", "vol"]);
    assert_eq!(plugin.names(), Vec::<String>::new());
    drop((runtime, plugin));
}

#[test]
fn a_volume_of_podman_comes_back_after_its_client_was_killed() {
    let Some(host) = Host::new() else { return };
    let runtime = start(&host, "");
    let plugin = Plugin::start(&host);
    create("vol", &bindfs(&host.directory("source"))).succeeds();
    runtime.run_with(&host, "first", &["-v", "vol:/data"], &["sleep", "1000"]);
    host.wait_for_client("bindfs").signal(Signal::KILL);
    wait::until("the death to be known", || (plugin.status("vol")["state"] != "serving").then_some(()));
    runtime.remove("first");
    runtime.run_with(&host, "next", &["-v", "vol:/data"], &["sh", "-c", "echo again > /data/file; exec sleep 1000"]);
    wait::until("it to serve", || (try_podman(&["exec", "next", "cat", "/data/file"]).stdout == "again\n").then_some(()));
    runtime.remove("next");
    podman(&["volume", "rm", "vol"]);
    assert!(host.list().is_empty());
    drop((runtime, plugin));
}

/// Podman hangs up after five seconds, unless it is told otherwise: what was begun for it is taken back.
#[test]
fn podman_waits_as_long_as_it_is_told_to() {
    let Some(host) = Host::new() else { return };
    let slow = define_script(&host, "sleep 7; mount -t tmpfs none $1", "");
    let runtime = start(&host, "");
    let plugin = Plugin::start(&host);
    create("slow", &slow).succeeds();
    let refused = run_once("slow");
    assert!(refused.code != Some(0) && refused.took < Duration::from_secs(20), "{refused:?}");
    wait::until("what was begun to be taken back", || (plugin.status("slow")["users"] == 0).then_some(()));
    assert!(host.list().is_empty() && host.sandboxed().is_empty());
    let file = Path::new("/etc/containers/containers.conf");
    let patient = fs::read_to_string(file).expect("it is there").replace("[engine]\n", "[engine]\nvolume_plugin_timeout = 100\n");
    fs::write(file, patient).expect("it is the test's own");
    run_once("slow").succeeds();
    // Podman unmounts beside the end of the command.
    wait::until("it to be unmounted", || host.list().is_empty().then_some(()));
    podman(&["volume", "rm", "--force", "slow"]);
    drop((runtime, plugin, text(file)));
}
