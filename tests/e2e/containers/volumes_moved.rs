//! Coming from other drivers, as the table of docs/DOCKER.md says: the same data, before by the other driver, after by ours.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::json;
use shorefast_tests::command::Running;
use shorefast_tests::path::text;
use shorefast_tests::runtimes::{Kind, Runtime};
use shorefast_tests::servers::{Sshd, Webdav};
use shorefast_tests::{Client, Host, wait};

use crate::docker::{create, docker, shell};
use crate::plugin::Plugin;

/// rclone's own plugin, of the rclone that Debian has.
#[test]
fn a_remote_of_rclones_plugin() {
    let Some(host) = Host::new() else { return };
    let server = Webdav::start(&host);
    host.define("rclone", &format!("image = \"dir:{}\"", Client::named("rclone").image_directory().display()));
    let configuration = host.file("rclone.conf", format!("[dav]\ntype = webdav\nurl = {}\n", server.url()));
    fs::set_permissions(&configuration, fs::Permissions::from_mode(0o600)).expect("the test's own file");
    let _runtime = Runtime::start(&host, Kind::Docker);
    let _plugin = Plugin::start(&host);
    let mut serve = Command::new("rclone");
    serve.args(["serve", "docker", "--socket-addr", "/run/docker/plugins/rclone.sock", "--config", text(&configuration)]);
    serve.args(["--base-dir", text(&host.directory("rclone"))]).env("HOME", text(&host.directory("home")));
    let mut theirs = Running::start(serve);
    wait::until("rclone's plugin", || fs::exists("/run/docker/plugins/rclone.sock").is_ok_and(|there| there).then_some(()));
    docker(&["volume", "create", "-d", "rclone", "-o", "remote=dav:", "-o", "allow_other=true", "before"]);
    shell("before", "echo data > /data/file");
    wait::until("the first to arrive", || fs::read_to_string(server.share.join("file")).ok().filter(|text| text == "data\n"));
    // Without a cache: what is closed has arrived, however soon the container ends.
    let options = "allow_other";
    create("after", &json!({ "type": "rclone", "device": "dav:", "o": options, "secret-file": text(&configuration) }));
    assert_eq!(shell("after", "cat /data/file"), "data");
    docker(&["volume", "rm", "before"]);
    shell("after", "echo more > /data/more");
    wait::until("the second to arrive", || fs::read_to_string(server.share.join("more")).ok().filter(|text| text == "more\n"));
    theirs.kill();
}

/// A key or a password: the plugin's own option is refused, with the word that says it here.
#[test]
fn a_share_of_the_sshfs_plugin() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    host.define("sshfs", &format!("image = \"dir:{}\"", Client::named("sshfs").image_directory().display()));
    fs::write(server.share.join("file"), "data").expect("the share can be written to");
    let _runtime = Runtime::start(&host, Kind::Docker);
    let plugin = Plugin::start(&host);
    let theirs = json!({ "sshcmd": server.source(), "port": "2222", "password": "hunter2" });
    let said = plugin.refuses("Create", &json!({ "Name": "v", "Opts": theirs }));
    assert!(said.contains("did you mean") && !said.contains("hunter2"), "{said}");
    let options = "port=2222,StrictHostKeyChecking=accept-new,allow_other";
    create("after", &json!({ "type": "sshfs", "device": server.source(), "o": options, "secret-file": text(&server.key) }));
    assert_eq!(shell("after", "cat /data/file"), "data");
    let script = "touch /data/x && rm /data/x && id -u";
    let user = docker(&[
        "run",
        "--rm",
        "--network=host",
        "--user=1000",
        "-v",
        "after:/data",
        "clients",
        "sh",
        "-c",
        &format!("ls /data; {script}"),
    ]);
    assert!(user.starts_with("file"), "{user}");
}
