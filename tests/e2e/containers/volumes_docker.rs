//! Volumes in real containers of the real Docker.

use std::fs;

use shorefast_tests::path::text;
use shorefast_tests::runtimes::{Kind, Runtime};
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Client, Host, mountinfo};

use crate::docker::{create, docker, inspect, shell, try_docker};
use crate::plugin::{Plugin, bindfs, bindfs_image, mountpoint};

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

/// Docker's command line takes a name of one letter for something else; all others work.
#[test]
fn names_with_every_legal_character() {
    let Some(host) = Host::new() else { return };
    let _runtime = Runtime::start(&host, Kind::Docker);
    let plugin = Plugin::start(&host);
    let options = bindfs(&host.directory("source"));
    let every: String = ('0'..='9').chain('A'..='Z').chain('a'..='z').chain("_.-".chars()).collect();
    let long = "0.".repeat(127) + "x";
    let names = [&*every, &*long, "0_", "Z-", "a.."];
    for name in names {
        create(name, &options);
        assert_eq!(shell(name, "echo $0 > /data/x; cat /data/x"), "sh", "{name}");
        assert_eq!(inspect(name)["Status"]["state"], "unmounted", "{name}");
    }
    let mut sorted = names.map(str::to_owned);
    sorted.sort();
    assert_eq!(plugin.names(), sorted);
    docker(&[&["volume", "rm"], &names[..]].concat());
    assert_eq!(plugin.names(), Vec::<String>::new());
    for name in ["_a", ".a", "-a", "a/b", "a b", "ä1"] {
        let words: Vec<_> = crate::docker::create_words(&options);
        let words: Vec<_> = words.iter().map(String::as_str).chain(["--", name]).collect();
        assert_ne!(try_docker(&words).code, Some(0), "{name}");
    }
    assert_eq!(plugin.names(), Vec::<String>::new());
}
