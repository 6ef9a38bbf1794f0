//! What cannot be upgraded: it is said why, and nothing has changed.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use shorefast_tests::client::Request;
use shorefast_tests::path::text;
use shorefast_tests::{Client, Host, wait};

use super::{BELOW, Scene, scene, scene_on};

/// The upgrade fails with these words, and the same client serves.
#[track_caller]
fn assert_refused(scene: &Scene, words: &str) {
    let before = scene.host.list();
    assert_eq!(before.len(), 1);
    scene.host.shorefast(&["upgrade", "--wait", "1s", text(&scene.target)]).exits(32).says(words);
    assert_eq!(fs::read(scene.target.join("file")).expect("it is served all the time"), b"hello", "{words}");
    assert_eq!(scene.host.list(), before, "{words}");
    wait::until("the new client to be gone", || {
        let ours = before[0]["id"].as_str().expect("an id");
        let cgroups = fs::read_dir(scene.host.run_directory()).expect("the run directory");
        let others: Vec<_> = cgroups.flatten().map(|entry| entry.file_name().into_string().expect("our own names")).collect();
        others.iter().all(|name| !name.starts_with('m') || name.starts_with(ours)).then_some(())
    });
}

fn bindfs(command: &str) -> String {
    format!(
        "types = [\"bindfs\"]\nkernel_types = [\"fuse\"]\nsource = \"path\"\nnamespaces = {{ user = \"host\" }}\ncommand = [\"sh\", \"-c\", '{command}', \"sh\", \"{{source}}\", \"{{target}}\"]\n"
    )
}

#[test]
fn a_client_that_does_not_serve_changes_nothing() {
    let Some(scene) = scene() else { return };
    let keeping = super::Keeping::start(&scene.target);
    let rows = [
        ("echo I am ill >&2; exit 3", "I am ill"),
        ("exec bindfs --no-such-option \"$@\"", "no-such-option"),
        // Another directory than the one that is mounted.
        ("exec bindfs /etc \"$2\"", "does not show the same"),
        ("exec bindfs \"$1/other\" \"$2\"", "does not show the same"),
    ];
    for (command, words) in rows {
        scene.host.file("client.toml", bindfs(command));
        assert_refused(&scene, words);
    }
    keeping.finish_unharmed();
    // By the definition of before there is nothing to do.
    scene.host.file("client.toml", &scene.definition);
    assert!(scene.host.shorefast(&["upgrade", text(&scene.target)]).succeeds().stdout.contains("nothing to do"));
    scene.end();
}

/// It lists everything, and has the same size.
#[test]
fn a_client_that_cannot_read_what_the_old_one_reads_changes_nothing() {
    let Some(scene) = scene() else { return };
    fs::write(scene.host.path("source/a-long-one"), [b'x'; 64]).expect("the source can be written to");
    scene.host.file("client.toml", bindfs("exec bindfs --read-rate=1 \"$@\""));
    assert_refused(&scene, "a-long-one");
    scene.end();
}

#[test]
fn a_definition_or_an_image_that_cannot_be_had_changes_nothing() {
    let Some(scene) = scene() else { return };
    for (definition, words) in [
        ("types = [\"bindfs\"]\ncommandd = [\"x\"]\n".to_owned(), "commandd"),
        (format!("{}\nenv = {{ PATH = 1 }}\n", scene.definition), "client.toml"),
    ] {
        scene.host.file("client.toml", definition);
        scene.host.shorefast(&["upgrade", text(&scene.target)]).exits(1).says(words);
    }
    fs::remove_file(scene.host.path("client.toml")).expect("the test's own file");
    scene.host.shorefast(&["upgrade", text(&scene.target)]).exits(1).says("client.toml");
    scene.host.file("client.toml", &scene.definition);
    assert_eq!(scene.host.list().len(), 1);
    scene.end();
    // The same client, with an image that its definition names.
    let image = |name: &str| format!("{}\nimage = \"{name}\"\n", scene.definition);
    let directory = Client::named("bindfs").image_directory();
    scene.host.define("bindfs", &image(&format!("dir:{}", text(&directory))));
    let source = scene.host.path("source");
    scene.host.shorefast(&["mount", "-t", "bindfs", text(&source), text(&scene.target)]).succeeds();
    scene.host.define("bindfs", &image("tar:/srv/no-such-image.tar"));
    assert_refused(&scene, "no-such-image");
    let planned = scene.host.shorefast(&["upgrade", "--dry-run", text(&scene.target)]).succeeds().stdout;
    assert!(planned.contains("no-such-image"), "{planned}");
    scene.end();
}

#[test]
fn whoever_has_a_lock_is_named_and_waited_for() {
    let Some(scene) = scene() else { return };
    scene.redefine(1);
    let file = scene.target.join("file");
    let mut holder = Command::new("flock").args([text(&file), "sleep", "1000"]).spawn().expect("flock");
    let is_locked =
        || fs::read_to_string("/proc/locks").unwrap_or_default().lines().any(|line| line.contains(&format!(" {} ", holder.id())));
    wait::until("the lock", || is_locked().then_some(()));
    assert_refused(&scene, &format!("pid {} (flock)", holder.id()));
    let upgrade = scene.host.start(&["upgrade", "--wait", "1m", "--json", text(&scene.target)]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", holder.id())).unwrap_or_default();
    for pid in children.split_whitespace() {
        shorefast_tests::processes::Process { pid: pid.parse().expect("a number") }.signal(Signal::KILL);
    }
    holder.wait().expect("a child of ours");
    assert_eq!(upgrade.finish().succeeds().json()[0]["result"], "upgraded");
    scene.all_old_clients_end();
    scene.end();
}

#[test]
fn a_client_that_must_not_run_twice_is_left_alone() {
    let Some(host) = Host::new() else { return };
    let scene = scene_on(host, "exclusive = true");
    scene.redefine(1);
    assert_refused(&scene, "exclusive");
    // After a crash the old one has ended.
    let before = scene.daemon();
    before.signal(Signal::KILL);
    assert_eq!(fs::read(scene.target.join("file")).expect("it is healed"), b"hello");
    wait::until("another client", || (scene.daemon().pid != before.pid).then_some(()));
    scene.end();
}

#[test]
fn what_is_not_ours_or_not_served_is_told_apart() {
    let Some(scene) = scene() else { return };
    let upgrade = |target: &str| scene.host.shorefast(&["upgrade", target]);
    upgrade("/srv").exits(32).says("not a mount of ours");
    upgrade("/srv/nothing-here").exits(32).says("not a mount of ours");
    upgrade("m0001-000000000001").exits(32).says("not a mount of ours");
    scene.host.shorefast(&["upgrade"]).exits(1);
    scene.host.shorefast(&["upgrade", "--all", "--client", "bindfs"]).exits(1);
    let nobody = scene.host.shorefast(&["upgrade", "--client", "nobody"]).succeeds().stdout;
    assert!(nobody.contains("nothing to do"), "{nobody}");
    // Its kernel serves it.
    let tmpfs = Client::named("tmpfs");
    let other = scene.host.directory("other");
    Request::new(&tmpfs, "tmpfs", "none", &other).sandboxed(&scene.host).succeeds();
    upgrade(text(&other)).exits(32).says("has none");
    scene.redefine(1);
    let all = scene.host.shorefast(&["upgrade", "--all", "--json"]).succeeds().json();
    assert_eq!(all.as_array().map(Vec::len), Some(1), "only what has a client: {all:#}");
    assert_eq!(all[0]["result"], "upgraded");
    scene.host.shorefast(&["umount", text(&other)]).succeeds();
    scene.all_old_clients_end();
    scene.end();
}

/// A bindfs over its own source: the new client would serve what the old one serves.
#[test]
fn a_mount_over_its_own_source_is_left_alone() {
    let Some(host) = Host::new() else { return };
    let definition = fs::read_to_string(&Client::named("bindfs").definition).expect("a definition can be read");
    let client = Client::defined(&host, "bindfs", &definition);
    let target = host.directory("target");
    fs::write(target.join("file"), "hello").expect("the target can be written to");
    Request::new(&client, "bindfs", &target, &target).sandboxed(&host).succeeds();
    let scene = Scene { host, target, definition };
    scene.redefine(1);
    assert_refused(&scene, "in the mount itself");
    scene.host.shorefast(&["umount", text(&scene.target)]).succeeds();
    scene.host.assert_nothing_left();
}

/// Its client has died, and another one does not start.
#[test]
fn one_that_heals_is_left_to_that() {
    let Some(host) = Host::new() else { return };
    let mood = "case $(cat \"$1/mood\") in well) exec bindfs \"$@\";; *) exit 3;; esac";
    let client = Client::defined(&host, "bindfs", &bindfs(mood));
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::write(source.join("mood"), "well").expect("the source can be written to");
    fs::write(target.join(BELOW), "").expect("the target can be written to");
    Request::new(&client, "bindfs", &source, &target).sandboxed(&host).succeeds();
    let scene = Scene { host, target, definition: String::new() };
    fs::write(source.join("mood"), "ill").expect("the source can be written to");
    scene.daemon().signal(Signal::KILL);
    wait::until("it to be given up for now", || (!scene.rows("healing").is_empty()).then_some(()));
    scene.upgrade().exits(32).says("another one is being started");
    scene.host.shorefast(&["umount", text(&scene.target)]).succeeds();
    scene.host.assert_nothing_left();
}
