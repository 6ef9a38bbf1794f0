//! The compose file of docs/DOCKER.md, as it stands there but for the server's address, with the real docker-compose.

use std::fs;
use std::path::Path;
use std::process::Command;

use shorefast_tests::path::text;
use shorefast_tests::runtimes::{Kind, Runtime};
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Client, Host, Ran, command, mountinfo, wait};

use crate::docker::{docker, inspect};
use crate::plugin::{Plugin, mountpoint};

/// What the documentation shows as YAML.
fn documented() -> String {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/DOCKER.md")).expect("it is there");
    let (_, rest) = page.split_once("```yaml\n").expect("there is an example");
    rest.split_once("```").expect("which ends").0.to_owned()
}

#[test]
fn two_services_of_a_compose_file_share_a_volume() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    host.define("sshfs", &format!("image = \"dir:{}\"", Client::named("sshfs").image_directory().display()));
    let runtime = Runtime::start(&host, Kind::Docker);
    docker(&["tag", "clients", "debian"]);
    let plugin = Plugin::start(&host);
    let file = documented();
    let ours = file.replace("user@host:/data", &server.source()).replace("port=2222,IdentityFile=/root/.ssh/id_ed25519", &server.options());
    assert_ne!(file, ours, "the example has another server");
    let project = host.directory("project");
    fs::write(project.join("docker-compose.yml"), ours).expect("the test's own file");
    // The machine has no bridge.
    let network = "services:\n  writer: { network_mode: host }\n  reader: { network_mode: host }\n";
    fs::write(project.join("docker-compose.override.yml"), network).expect("the test's own file");
    let compose = |words: &[&str]| -> Ran {
        let mut compose = Command::new("docker-compose");
        compose.args(words).current_dir(&project).env("COMPOSE_PROJECT_NAME", "shore");
        command::finish(compose)
    };
    for round in 1..=2 {
        compose(&["up", "--detach"]).succeeds();
        let log = || fs::read_to_string(server.share.join("log")).unwrap_or_default();
        wait::until("the writer's line on the server", || (log().lines().count() == round).then_some(()));
        let seen = || compose(&["logs", "--no-color", "reader"]).stdout;
        let all = || log().lines().all(|line| seen().contains(line));
        assert!(wait::within(wait::PATIENCE / 4, || all().then_some(())).is_some(), "{}: {}", log(), seen());
        let status = inspect("shore_data")["Status"].clone();
        assert_eq!((&status["state"], &status["client"], &status["users"]), (&"serving".into(), &"sshfs".into(), &2.into()), "{status}");
        assert_eq!(host.list().len(), 1, "one client for both services");
        let ours = mountinfo::here().into_iter().filter(|mount| mount.point == mountpoint("shore_data")).count();
        assert_eq!(ours, 1);
        assert_ne!(compose(&["exec", "-T", "reader", "touch", "/data/x"]).code, Some(0), "the reader's is read-only");
        compose(&["down", "--timeout", "0"]).succeeds();
        assert!(host.list().is_empty(), "unmounted with the last service");
    }
    // What is in the file is compared with what is there.
    let changed = fs::read_to_string(project.join("docker-compose.yml")).expect("it is there").replace("port=2222", "port=2222,ro");
    fs::write(project.join("docker-compose.yml"), changed).expect("the test's own file");
    assert_ne!(compose(&["up", "--detach"]).code, Some(0));
    compose(&["down", "--timeout", "0", "--volumes"]).succeeds();
    assert_eq!(plugin.names(), Vec::<String>::new());
    assert!(server.share.join("log").exists(), "what a volume holds is its server's");
    drop((runtime, plugin, text(&project)));
}
