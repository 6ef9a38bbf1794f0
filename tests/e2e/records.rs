//! Records that are damaged, lost or doubled: what happens to one mount's record harms no other mount.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;
use shorefast_tests::client::Request;
use shorefast_tests::path::text;
use shorefast_tests::processes::Process;
use shorefast_tests::{Client, Host, command, mountinfo, wait};

fn bindfs(host: &Host, target: &str) -> PathBuf {
    bindfs_with(host, target, &Client::named("bindfs"))
}

fn bindfs_with(host: &Host, target: &str, client: &Client) -> PathBuf {
    let (source, target) = (host.directory("source"), host.directory(target));
    fs::write(source.join("file"), "here").expect("the source can be written to");
    Request::new(client, "bindfs", &source, &target).sandboxed(host).succeeds();
    target
}

fn assert_serves(target: &Path) {
    assert_eq!(fs::read(target.join("file")).expect("the mount can be read"), b"here");
}

fn id_of(host: &Host, target: &Path) -> String {
    let row = host.shorefast(&["inspect", "--json", text(target)]).succeeds().json();
    row["id"].as_str().expect("an id").to_owned()
}

#[test]
fn nothing_points_to_a_record_that_was_set_aside() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    Request::new(&Client::named("tmpfs"), "tmpfs", "none", &target).sandboxed(&host).succeeds();
    let record = host.run_directory().join(format!("{}.json", id_of(&host, &target)));
    fs::write(record, "").expect("a test's own /run");
    host.shorefast(&["reconcile"]).succeeds();
    assert!(!host.run_directory().join("by-mount").exists(), "the index still has the record");
    command::run(&["umount", text(&target)]);
    fs::remove_dir_all(host.run_directory().join("unreadable")).expect("that is where it was put");
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn a_damaged_record_spoils_only_itself() {
    let Some(host) = Host::new() else { return };
    let good = bindfs(&host, "good");
    let run = host.run_directory();
    fs::create_dir_all(run.join("starting")).expect("a test's own /run");
    for (name, content) in [("m0001.json", &b""[..]), ("m0002.json", b"\xff\x00nonsense"), ("m0003-0.json", b"{}"), ("starting/m0004", b"")]
    {
        fs::write(run.join(name), content).expect("a test's own /run");
    }
    fs::create_dir(run.join("m0005.json")).expect("a test's own /run");
    fs::write(run.join("m0006.log"), "of nobody").expect("a test's own /run");

    assert_eq!(host.list().len(), 1);
    host.shorefast(&["list"]).succeeds().says("m0001.json");
    host.shorefast(&["inspect", text(&good)]).succeeds();
    let other = bindfs(&host, "other");
    host.shorefast(&["umount", text(&other)]).succeeds();
    host.shorefast(&["image", "gc"]).succeeds();
    let doctor = host.shorefast(&["doctor"]);
    assert!(doctor.stdout.contains("m0002.json"), "{}", doctor.stdout);
    let report = host.shorefast(&["reconcile", "--json"]).succeeds().json();
    assert_eq!(report["set_aside"].as_array().map(Vec::len), Some(4), "{report}");
    assert!(!run.join("m0006.log").exists() && !run.join("starting/m0004").exists());
    host.shorefast(&["list"]).succeeds();
    assert_serves(&good);
    host.shorefast(&["umount", text(&good)]).succeeds();
    fs::remove_dir_all(run.join("unreadable")).expect("what was set aside is there");
    host.assert_nothing_left();
}

#[test]
fn a_lost_record_is_found_again() {
    let Some(host) = Host::new() else { return };
    let damages: [fn(&Path, &str); 2] = [
        |run, _| fs::remove_dir_all(run).expect("a test's own /run"),
        |run, id| fs::write(run.join(format!("{id}.json")), "").expect("a test's own /run"),
    ];
    for damage in damages {
        let target = bindfs(&host, "target");
        let id = id_of(&host, &target);
        damage(host.run_directory(), &id);
        assert!(host.list().is_empty());
        let report = host.shorefast(&["reconcile", "--json"]).succeeds().json();
        assert_eq!(report["adopted"], Value::from(vec![id.clone()]), "{report}");
        assert_eq!(host.list()[0]["id"], id);
        assert_serves(&target);
        host.shorefast(&["umount", text(&target)]).succeeds();
        let _ = fs::remove_dir_all(host.run_directory().join("unreadable"));
        host.assert_nothing_left();
    }
}

#[test]
fn a_mount_whose_record_is_lost_still_ends_well() {
    let Some(host) = Host::new() else { return };
    let target = bindfs(&host, "target");
    let pid = host.list()[0]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a daemon");
    fs::remove_dir_all(host.run_directory()).expect("a test's own /run");
    Process { pid }.signal(Signal::KILL);
    wait::until("the dead mount to go", || mountinfo::at(&target).is_empty().then_some(()));
    host.assert_nothing_left();
}

#[test]
fn the_keeper_of_an_earlier_mount_ends_no_later_one_with_the_same_slot() {
    let Some(host) = Host::new() else { return };
    let target = bindfs(&host, "target");
    let id = id_of(&host, &target);
    let slot = id.split('-').next().expect("a slot");
    for earlier in [slot.to_owned(), format!("{slot}-000000000000")] {
        host.shorefast(&["--run-dir", text(host.run_directory()), "__ended", &earlier, "-"]);
        host.shorefast(&["--run-dir", text(host.run_directory()), "__ended", &earlier]);
        assert_serves(&target);
        assert_eq!(host.list()[0]["id"], id);
    }
    host.shorefast(&["umount", text(&target)]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn a_client_with_the_same_ids_in_another_run_directory_is_left_alone() {
    let Some(host) = Host::new() else { return };
    let definition = fs::read_to_string(&Client::named("bindfs").definition).expect("a definition can be read");
    let definition: String = definition.lines().filter(|line| !line.starts_with("namespaces")).map(|line| format!("{line}\n")).collect();
    let client = Client::defined(&host, "bindfs", &format!("{definition}namespaces = {{ pid = \"host\" }}\n"));
    let target = bindfs_with(&host, "target", &client);
    let id = id_of(&host, &target);
    let mut record: Value = {
        let file = host.run_directory().join(format!("{id}.json"));
        serde_json::from_slice(&fs::read(file).expect("a record can be read")).expect("a record is JSON")
    };
    // One of the same slot, elsewhere, whose client has ended.
    let (other_run, other_target) = (host.directory("other-run"), host.directory("other-target"));
    let other = format!("{}-0123456789ab", id.split('-').next().expect("a slot"));
    record["id"] = if id.contains('-') { other } else { id.clone() }.into();
    record["target"] = text(&other_target).into();
    record["mount"]["id"] = 1.into();
    record["sandbox"] = 1.into();
    record["keeper"] = Value::Null;
    record["init"]["pid"] = 1.into();
    let file = other_run.join(format!("{}.json", record["id"].as_str().expect("an id")));
    fs::write(file, record.to_string()).expect("a test's own directory");
    host.shorefast(&["--run-dir", text(&other_run), "umount", "--force", text(&other_target)]);
    host.shorefast(&["--run-dir", text(&other_run), "reconcile"]).succeeds();
    assert_serves(&target);
    host.shorefast(&["umount", text(&target)]).succeeds();
    host.assert_nothing_left();
}
