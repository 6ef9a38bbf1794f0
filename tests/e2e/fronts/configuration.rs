//! Where definitions come from: directories, a ConfigMap that is updated in place, what stands beside the mounter, and flags.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use shorefast_tests::{Client, Host, command, mountinfo};

use crate::{script, text};

/// A ConfigMap as kubelet mounts it: keys are links through `..data`, which an update turns in one step.
struct ConfigMap {
    directory: PathBuf,
}

impl ConfigMap {
    fn new(host: &Host) -> Self {
        Self { directory: host.directory("configmap") }
    }

    fn update(&self, version: &str, keys: &[(&str, &str)]) {
        let place = self.directory.join(format!("..{version}"));
        fs::create_dir(&place).expect("a version of its own");
        for (key, value) in keys {
            fs::write(place.join(key), value).expect("a directory of the test's own");
            let link = self.directory.join(key);
            let _ = fs::remove_file(&link); // of an earlier version
            std::os::unix::fs::symlink(Path::new("..data").join(key), link).expect("a directory of the test's own");
        }
        let new = self.directory.join("..data_tmp");
        std::os::unix::fs::symlink(place.file_name().expect("it has a name"), &new).expect("a directory of the test's own");
        fs::rename(new, self.directory.join("..data")).expect("links can be turned");
    }
}

fn planned(host: &Host, arguments: &[&str]) -> Value {
    let words: Vec<_> = arguments.iter().copied().chain(["server:/x", "/srv"]).collect();
    host.shorefast(&words).succeeds().json()
}

#[test]
fn a_configmap_is_updated_in_place_and_its_last_good_state_stays_in_force() {
    let Some(host) = Host::new() else { return };
    let map = ConfigMap::new(&host);
    let target = host.directory("target");
    let definition = |source: &str| script(&format!("exec mount -t tmpfs {source} \"$1\""));
    let mount = || {
        let ran = host.shorefast(&["--clients", text(&map.directory), "mount", "-t", "script", "none", text(&target)]).succeeds();
        let source = mountinfo::at(&target)[0].source.to_string_lossy().into_owned();
        command::run(&["umount", text(&target)]);
        (source, ran.stderr)
    };
    map.update("1", &[("script.toml", &definition("first"))]);
    assert_eq!(mount(), ("first".to_owned(), String::new()));
    map.update("2", &[("script.toml", &definition("second"))]);
    assert_eq!(mount(), ("second".to_owned(), String::new()));

    map.update("3", &[("script.toml", "types = [\"script\"]\nimmage = \"x\"\n")]);
    let (source, said) = mount();
    assert_eq!(source, "second");
    for part in [text(&map.directory), "last good", "line 2", "immage"] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
    let list = host.shorefast(&["--clients", text(&map.directory), "client", "list"]).exits(1).says("immage");
    assert!(list.stdout.contains("script"), "what is in force is shown: {}", list.stdout);
    host.shorefast(&["client", "check", text(&map.directory)]).exits(1).says("immage");

    map.update("4", &[("script.toml", &definition("fourth"))]);
    assert_eq!(mount(), ("fourth".to_owned(), String::new()));
    host.shorefast(&["client", "check", text(&map.directory)]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn a_malformed_configmap_that_never_was_good_changes_nothing() {
    let Some(host) = Host::new() else { return };
    let map = ConfigMap::new(&host);
    let target = host.directory("target");
    map.update("1", &[("script.toml", "types = ")]);
    let ran = host.shorefast(&["--clients", text(&map.directory), "mount", "-t", "script", "none", text(&target)]).exits(1);
    assert!(ran.stderr.contains("script.toml") && ran.stderr.contains("line 1"), "{}", ran.stderr);
    assert_eq!(mountinfo::at(&target), []);
    map.update("2", &[("volume-plugin", "nfs")]);
    host.shorefast(&["--clients", text(&map.directory), "client", "show", "nfs"]).exits(1).says("docker-container");
    host.assert_nothing_left();
}

#[test]
fn the_short_form_of_a_configmap_and_a_flag_name_an_image() {
    let Some(host) = Host::new() else { return };
    let map = ConfigMap::new(&host);
    map.update("1", &[("volume-plugin", "nfs"), ("docker-container", "k8io/nfs:latest")]);
    let clients = ["--clients", text(&map.directory)];
    let plan = planned(&host, &[clients[0], clients[1], "mount", "--dry-run", "-t", "nfs"]);
    assert!(plan["image"].as_str().is_some_and(|image| image.contains("k8io/nfs:latest")), "{plan}");
    assert_eq!(plan["command"][0], "mount.nfs", "the rest is as it was");

    let flag = ["--client-image", "nfs=registry.example/nfs:2", "--client-image", "sshfs=dir:/srv/sshfs"];
    let plan = planned(&host, &[&clients[..], &flag, &["mount", "--dry-run", "-t", "nfs"]].concat());
    assert!(plan["image"].as_str().is_some_and(|image| image.contains("registry.example/nfs:2")), "{plan}");
    let shown = host.shorefast(&[&clients[..], &flag, &["client", "show", "--json", "nfs"]].concat()).succeeds().json();
    let from = shown["keys"]["image"]["from"].as_str().expect("a text");
    assert_eq!(from, format!("--client-image over {}/docker-container over the built-in one", text(&map.directory)));
    assert_eq!(shown["keys"]["command"]["from"], "built in");

    let slip = ["--client-image", "nsf=x", "mount", "--dry-run", "-t", "nfs", "server:/x", "/srv"];
    host.shorefast(&slip).exits(1).says("nsf");
    host.shorefast(&["--client-image", "nfs", "client", "list"]).exits(1).says("CLIENT=IMAGE");
}

#[test]
fn later_directories_count_more_and_what_stands_beside_the_mounter_counts_most() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    let definition = |source: &str| script(&format!("exec mount -t tmpfs {source} \"$1\""));
    host.define("script", &definition("etc"));
    let mounter = host.install("kubernetes/mounter");
    let mounted = || {
        let source = mountinfo::at(&target)[0].source.to_string_lossy().into_owned();
        command::run(&["umount", text(&target)]);
        source
    };
    let call = || command::run(&[text(&mounter), "mount", "-t", "script", "none", text(&target)]);
    call();
    assert_eq!(mounted(), "etc");
    let beside = host.directory("kubernetes/clients.d").join("script.toml");
    fs::write(&beside, definition("beside")).expect("a directory of the test's own");
    call();
    assert_eq!(mounted(), "beside");

    let other = host.directory("other");
    fs::write(other.join("script.toml"), "limits = { pids = 9 }\n").expect("a directory of the test's own");
    let both = format!("/etc/shorefast/clients.d:{}", text(&other));
    let shown = host.shorefast(&["--clients", &both, "client", "show", "--json", "script"]).succeeds().json();
    assert_eq!(shown["keys"]["limits"]["from"], format!("{}/script.toml", text(&other)));
    assert_eq!(shown["keys"]["image"]["from"], "/etc/shorefast/clients.d/script.toml");
    let file = Client::named("tmpfs").definition;
    let plan = planned(&host, &["--clients", &both, "mount", "--dry-run", "--image", "dir:/x", "--client-file", text(&file)]);
    assert_eq!(plan["definition"], text(&file), "a file that the caller names stands alone");
    host.assert_nothing_left();
}
