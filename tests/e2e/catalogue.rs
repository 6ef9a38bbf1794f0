//! What is built in: client definitions, what overrides them, and the demo.

#[path = "catalogue/vendor.rs"]
mod vendor;
#[path = "catalogue/examples.rs"]
mod examples;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use shorefast_tests::client::{packages, store};
use shorefast_tests::kernel::is_guest;
use shorefast_tests::path::text;
use shorefast_tests::{Host, mountinfo, wait};

const BUILT_IN: [&str; 10] = ["bindfs", "ceph", "ceph-fuse", "cifs", "davfs", "glusterfs", "nfs", "rclone", "s3fs", "sshfs"];

#[test]
fn the_list_has_all_built_in_clients_and_those_in_files() {
    let Some(host) = Host::new() else { return };
    let directory = host.directory("clients");
    fs::write(directory.join("mine.toml"), "types = [\"mine\"]\n").expect("a writable directory");
    fs::write(directory.join("nfs.toml"), "image = \"dir:/srv/nfs\"\n").expect("a writable directory");
    let list = host.shorefast(&["--clients", text(&directory), "client", "list", "--json"]).succeeds().json();
    let rows = list.as_array().expect("an array");
    for name in BUILT_IN {
        assert!(rows.iter().any(|row| row["name"] == name), "{name} is missing: {list}");
    }
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} in {list}"));
    assert_eq!(row("sshfs")["from"], "built in");
    assert_eq!(row("mine")["from"], text(&directory.join("mine.toml")));
    assert_eq!((&row("nfs")["image"], &row("nfs")["types"]), (&"dir:/srv/nfs".into(), &serde_json::json!(["nfs", "nfs4"])));
}

#[test]
fn a_key_is_shown_with_where_it_comes_from() {
    let Some(host) = Host::new() else { return };
    let directory = host.directory("clients");
    fs::write(directory.join("sshfs.toml"), "image = \"dir:/srv/mine\"\n").expect("a writable directory");
    let show = |name: &str| host.shorefast(&["--clients", text(&directory), "client", "show", "--json", name]).succeeds().json();
    let shown = show("sshfs");
    assert_eq!(shown["keys"]["image"]["value"], "dir:/srv/mine");
    assert!(shown["keys"]["image"]["from"].as_str().is_some_and(|from| from.contains("clients/sshfs.toml")), "{shown}");
    assert_eq!(shown["keys"]["kernel_types"]["from"], "built in");
    assert_eq!(show("nfs4")["name"], "nfs", "a type will do");
    // What is shown can be used as a file.
    let toml = host.shorefast(&["--clients", text(&directory), "client", "show", "sshfs"]).succeeds().stdout;
    let file = host.file("shown.toml", &toml);
    host.shorefast(&["client", "check", text(&file)]).succeeds();
}

#[test]
fn mistakes_are_reported_with_file_line_and_the_nearest_key() {
    let Some(host) = Host::new() else { return };
    let file = host.file("broken.toml", "types = [\"x\"]\nkernel_type = [\"fuse\"]\n");
    let said = host.shorefast(&["client", "check", text(&file)]).exits(1);
    for part in ["broken.toml", "line 2", "kernel_type", "did you mean `kernel_types`?"] {
        assert!(said.stderr.contains(part), "{part:?} is not in {}", said.stderr);
    }
    host.shorefast(&["mount", "-t", "nosuch", "x", text(&host.directory("target"))]).exits(32).says("client list");
}

#[test]
fn ten_first_mounts_at_once_make_the_image_once() {
    let Some(host) = Host::new() else { return };
    host.offer_packages();
    let source = host.directory("source");
    let targets: Vec<_> = (0..10).map(|number| host.directory(format!("target{number}"))).collect();
    host.settle();
    // A store of its own, which has nothing yet.
    let mounts: Vec<_> = targets.iter().map(|target| host.start(&["mount", "-t", "bindfs", text(&source), text(target)])).collect();
    mounts.into_iter().for_each(|mount| drop(mount.finish().succeeds()));
    let images = host.shorefast(&["image", "list", "--json"]).succeeds().json();
    assert_eq!(images.as_array().map(Vec::len), Some(1), "{images}");
    assert_eq!(images[0]["used_by"].as_array().map(Vec::len), Some(10), "{images}");
    targets.iter().for_each(|target| drop(host.shorefast(&["umount", text(target)]).succeeds()));
    host.assert_nothing_left();
}

#[test]
fn offline_says_what_to_import() {
    let Some(host) = Host::new() else { return };
    host.offer_packages();
    let said = host.shorefast(&["mount", "--offline", "-t", "sshfs", "host:", text(&host.directory("target"))]).exits(32);
    assert!(said.stderr.contains("packages:debian/trixie?sshfs") && said.stderr.contains("hint:"), "{}", said.stderr);
    host.assert_nothing_left();
}

mod demo {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use shorefast_tests::command::{self, Running};

    fn arguments<'a>(root: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        ["--root", root, "demo"].iter().chain(more).copied().collect()
    }

    #[test]
    fn mounts_shows_and_leaves_nothing() {
        let Some(host) = Host::new() else { return };
        host.offer_packages();
        let root = store();
        // The first may have to make the images.
        host.shorefast(&arguments(text(&root), &[])).succeeds();
        let start = Instant::now();
        let said = host.shorefast(&arguments(text(&root), &["--offline"])).succeeds();
        let took = start.elapsed();
        for part in ["server    sshd in a sandbox", "mounted in", "reads back the same", "CapEff 0000000000000000", "nothing is left"] {
            assert!(said.stdout.contains(part), "{part:?} is not in {}", said.stdout);
        }
        if !is_guest() {
            assert!(took < Duration::from_secs(3), "{took:?}");
        }
        assert_no_files();
        host.assert_nothing_left();
    }

    #[test]
    fn keep_leaves_it_until_the_umount() {
        let Some(host) = Host::new() else { return };
        host.offer_packages();
        let said = host.shorefast(&arguments(text(&store()), &["--keep"])).succeeds();
        let target = said.stdout.split_once("kept: look into ").and_then(|(_, rest)| rest.split_once(';')).expect("it names the place").0;
        assert_eq!(fs::read(Path::new(target).join("hello")).expect("the mount still works"), b"hello from the host\n");
        command::run(&["umount", target]);
        wait::until("the server to end", || host.sandboxed().is_empty().then_some(()));
        wait::until("the directory to go", || (!Path::new(target).exists()).then_some(()));
        host.assert_nothing_left();
    }

    /// Whenever it is interrupted, all is cleaned up by what it left running.
    #[test]
    fn an_interruption_at_any_point_cleans_up() {
        let Some(host) = Host::new() else { return };
        host.offer_packages();
        let root = store();
        host.shorefast(&arguments(text(&root), &[])).succeeds();
        for milliseconds in [5, 20, 50, 80, 120, 160, 200, 250, 300, 400] {
            let mut command = Command::new(host.binary());
            command.args(arguments(text(&root), &[])).process_group(0);
            let demo = Running::start(command);
            std::thread::sleep(Duration::from_millis(milliseconds));
            demo.interrupt();
            drop(demo.finish());
            wait::until("the sandboxes to end", || host.sandboxed().is_empty().then_some(()));
            wait::until("the directory to go", || places().is_empty().then_some(()));
            assert!(mountinfo::here().iter().all(|mount| !text(&mount.point).contains("shorefast-demo")), "after {milliseconds} ms");
            host.shorefast(&["reconcile"]).succeeds();
            host.assert_nothing_left();
        }
    }

    fn places() -> Vec<String> {
        let names = fs::read_dir("/tmp").into_iter().flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("shorefast-demo.")).collect()
    }

    fn assert_no_files() {
        assert_eq!(places(), [""; 0]);
    }
}

#[test]
fn the_local_archive_is_there() {
    // Without it the tests above would have nothing to make images from.
    assert!(packages().join("dists").is_dir(), "run `cargo xtask setup`");
}
