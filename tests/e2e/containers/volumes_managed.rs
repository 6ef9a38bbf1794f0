//! The plugin that Docker runs by itself, of a directory that `cargo xtask docker-plugin` makes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use shorefast_tests::path::text;
use shorefast_tests::runtimes::{Kind, Runtime};
use shorefast_tests::{Host, command};

use crate::docker::{docker, inspect, shell, try_docker};
use crate::plugin::bindfs;

/// As it is made for users, with a way to the tests' images, and to the libraries of the tests' binary, if it is not static.
fn plugin_directory(host: &Host, shown: &[&Path]) -> PathBuf {
    let directory = host.path("plugin");
    let ourselves = std::env::current_exe().expect("a program knows its own path");
    // target/PROFILE/deps/TEST-HASH
    let xtask = ourselves.ancestors().nth(2).expect("a program is in a directory").join("xtask");
    command::run(&[text(&xtask), "docker-plugin", "--binary", text(host.binary()), "--out", text(&directory)]);
    let mut ldd = std::process::Command::new("ldd");
    ldd.arg(host.binary());
    for library in command::finish(ldd).stdout.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = directory.join("rootfs").join(library.trim_start_matches('/'));
        fs::create_dir_all(to.parent().expect("a directory")).and_then(|()| fs::copy(library, to)).expect("the test's own directory");
    }
    let file = directory.join("config.json");
    let mut configuration: Value = serde_json::from_slice(&fs::read(&file).expect("it was made")).expect("JSON");
    let mounts = configuration["mounts"].as_array_mut().expect("a list");
    for path in shown {
        mounts.push(json!({ "source": text(path), "destination": text(path), "type": "bind", "options": ["rbind"] }));
    }
    fs::write(file, configuration.to_string()).expect("the test's own directory");
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
