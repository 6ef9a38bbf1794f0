//! Whose mount it is: what is ours is known wherever it is, and what is not ours is never touched.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::Signal;
use serde_json::Value;
use shorefast_tests::client::Request;
use shorefast_tests::command::Running;
use shorefast_tests::path::text;
use shorefast_tests::processes::Process;
use shorefast_tests::{Client, Host, Way, command, kernel, mountinfo, wait};

/// A local client that is mounted and serves a file.
fn bindfs(host: &Host, target: &Path) {
    let source = host.directory("source");
    fs::write(source.join("file"), "ours").expect("the source can be written to");
    Request::new(&Client::named("bindfs"), "bindfs", &source, target).sandboxed(host).succeeds();
    assert_eq!(fs::read(target.join("file")).expect("the mount can be read"), b"ours");
}

/// Somebody else's filesystem, with data that is nowhere else.
fn foreign(place: &Path) {
    mount("foreign", place, "tmpfs", MountFlags::empty(), c"mode=755").expect("a tmpfs can be mounted");
    fs::write(place.join("theirs"), "data").expect("a tmpfs can be written to");
}

fn unmount_foreign(place: &Path) {
    assert_eq!(fs::read(place.join("theirs")).expect("it is still there"), b"data");
    unmount(place, UnmountFlags::NOFOLLOW).expect("it can be unmounted by whoever mounted it");
}

fn daemon(row: &Value) -> Process {
    Process { pid: row["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a served mount has a daemon") }
}

#[test]
fn what_others_mounted_on_ours_stays() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    for manner in [&["umount", "/srv/target"][..], &["umount", "--lazy", "/srv/target"]] {
        bindfs(&host, &target);
        foreign(&target);
        host.shorefast(manner).exits(32).says("tmpfs (foreign) at /srv/target is mounted on it").says("hint:");
        assert_eq!(mountinfo::at(&target).len(), 2, "{manner:?}");
        assert_eq!(host.list()[0]["state"], "serving");
        assert_eq!(host.list()[0]["covered"], true);
        unmount_foreign(&target);
        assert_eq!(fs::read(target.join("file")).expect("ours was not touched"), b"ours");
        host.shorefast(manner).succeeds();
        host.assert_nothing_left();
    }
}

#[test]
fn by_force_our_client_ends_and_what_others_mounted_stays() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    bindfs(&host, &target);
    foreign(&target);
    host.shorefast(&["umount", "--force", text(&target)]).exits(32).says("tmpfs (foreign)").says("its client was ended");
    assert!(host.sandboxed().is_empty());
    let [dead] = &host.list()[..] else { panic!("a covered dead mount is still ours: {:?}", host.list()) };
    assert_eq!((&dead["state"], &dead["covered"]), (&Value::from("dead"), &Value::from(true)));
    // Not even whoever cleans up takes it.
    let report = host.shorefast(&["reconcile", "--json"]).succeeds().json();
    assert_eq!(report["dead"][0], dead["id"]);
    unmount_foreign(&target);
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn what_others_mounted_inside_ours_stays() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    fs::create_dir_all(host.directory("source").join("sub")).expect("the source can be written to");
    bindfs(&host, &target);
    foreign(&target.join("sub"));
    for manner in ["--lazy", "--force"] {
        host.shorefast(&["umount", manner, text(&target)]).exits(32).says("tmpfs (foreign) at /srv/target/sub");
    }
    unmount(target.join("sub"), UnmountFlags::NOFOLLOW).expect("it is still there");
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn of_two_of_ours_the_one_on_top_goes() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    for _ in 0..5 {
        bindfs(&host, &target);
        let below = mountinfo::at(&target);
        let (tmpfs, source) = (Client::named("tmpfs"), host.directory("source"));
        let over = Request::new(&tmpfs, "tmpfs", "none", &target);
        over.sandboxed(&host).exits(32).says("has another mount of ours already, which differs in type, source").says("--over");
        host.shorefast(&over.arguments(Way::Directory, &["--over"])).succeeds();
        let bindfs = Client::named("bindfs");
        host.shorefast(&Request::new(&bindfs, "bindfs", source, &target).arguments(Way::Directory, &["--over"])).succeeds();
        host.shorefast(&["umount", text(&target)]).succeeds();
        assert_eq!(mountinfo::at(&target).last().map(|top| top.fstype.clone()).as_deref(), Some("tmpfs"));
        host.shorefast(&["umount", text(&target)]).succeeds();
        assert_eq!(mountinfo::at(&target), below);
        host.shorefast(&["umount", text(&target)]).succeeds();
        host.assert_nothing_left();
    }
}

#[test]
fn nothing_foreign_goes_while_others_mount_and_unmount() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    for manner in [&["umount", "/srv/target"][..], &["umount", "--force", "/srv/target"], &["umount", "--lazy", "/srv/target"]] {
        for _ in 0..3 {
            bindfs(&host, &target);
            let stop = AtomicBool::new(false);
            let rounds = std::thread::scope(|scope| {
                let others = scope.spawn(|| mount_and_unmount(&target, &stop));
                // Refused as long as theirs is on top when it looks.
                let gone = wait::within(Duration::from_secs(20), || (host.shorefast(manner).code == Some(0)).then_some(()));
                stop.store(true, Ordering::Relaxed);
                let rounds = others.join().expect("nothing of theirs went");
                assert!(gone.is_some() || manner.contains(&"--force"), "{manner:?}: never unmounted in {rounds} rounds");
                rounds
            });
            assert!(rounds > 0);
            host.shorefast(&["reconcile"]).succeeds();
            host.assert_nothing_left();
        }
    }
}

/// Panics if a mount of its own is not where it was put.
fn mount_and_unmount(target: &Path, stop: &AtomicBool) -> u32 {
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        mount("foreign", target, "tmpfs", MountFlags::empty(), None).expect("a tmpfs can be mounted");
        let own = fs::metadata(target).expect("a mounted tmpfs can be looked at").dev();
        std::thread::sleep(Duration::from_micros(300));
        let still = fs::metadata(target).expect("a mounted tmpfs can be looked at").dev();
        assert_eq!(own, still, "somebody took our mount away");
        // Busy, as long as somebody looks at the path.
        while let Err(error) = unmount(target, UnmountFlags::NOFOLLOW) {
            assert_eq!(error, rustix::io::Errno::BUSY, "our mount is there to be unmounted");
        }
        // Long enough now and then for an umount on a slow kernel, which is refused as long as this is on top.
        std::thread::sleep(if rounds % 8 == 7 { Duration::from_millis(40) } else { Duration::from_micros(700) });
        rounds += 1;
    }
    rounds
}

#[test]
fn a_record_of_another_boot_says_nothing_about_the_mounts_of_this_one() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    bindfs(&host, &target);
    let mut record = the_record(&host);
    host.shorefast(&["umount", text(&target)]).succeeds();
    foreign(&target);
    host.settle();
    record["boot"] = "00000000-0000-0000-0000-000000000000".into();
    record["mount"] = identity(&target);
    write_record(&host, &record);
    host.shorefast(&["umount", "--force", text(&target)]).exits(32).says("not a mount of ours");
    host.shorefast(&["reconcile"]).succeeds();
    assert!(host.list().is_empty());
    host.assert_nothing_left();
    unmount_foreign(&target);
}

fn the_record(host: &Host) -> Value {
    let files = fs::read_dir(host.run_directory()).expect("there are records").filter_map(|entry| Some(entry.ok()?.path()));
    let [record] = &files.filter(|path| path.extension().is_some_and(|end| end == "json")).collect::<Vec<_>>()[..] else {
        panic!("not one record")
    };
    serde_json::from_slice(&fs::read(record).expect("a record can be read")).expect("a record is JSON")
}

fn write_record(host: &Host, record: &Value) {
    fs::create_dir_all(host.run_directory()).expect("a test's own /run");
    let file = host.run_directory().join(format!("{}.json", record["id"].as_str().expect("an id")));
    fs::write(file, record.to_string()).expect("a test's own /run");
}

/// As records have it.
fn identity(place: &Path) -> Value {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let unique = StatxFlags::from_bits_retain(0x4000);
    let ask = |mask| statx(CWD, place, AtFlags::empty(), mask).expect("it can be looked at");
    let (found, is_unique) = match ask(unique) {
        found if found.stx_mask & unique.bits() != 0 => (found, true),
        _ => (ask(StatxFlags::MNT_ID), false),
    };
    serde_json::json!({ "id": found.stx_mnt_id, "unique": is_unique, "major": found.stx_dev_major, "minor": found.stx_dev_minor })
}

#[test]
fn a_client_that_dies_while_covered_leaves_a_mount_that_is_still_ours() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    bindfs(&host, &target);
    foreign(&target);
    daemon(&host.list()[0]).signal(Signal::KILL);
    let inspect = || host.shorefast(&["inspect", "--json", text(&target)]).succeeds().json();
    let problem = || inspect()["crashes"][0]["problem"].as_str().map(str::to_owned);
    let why = wait::until("a first attempt to heal it", problem);
    assert!(why.contains("another mount covers it"), "{why}");
    assert_eq!((&host.list()[0]["state"], &host.list()[0]["covered"]), (&Value::from("healing"), &Value::from(true)));
    unmount_foreign(&target);
    // An older kernel has it dead (docs/HEALING.md), and still ours.
    if kernel::version() >= (6, 8) {
        wait::until("a later attempt to succeed", || (host.list().first()?["state"] == "serving").then_some(()));
        assert_eq!(fs::read(target.join("file")).expect("a new client serves it"), b"ours");
    }
    host.shorefast(&["umount", text(&target)]).succeeds();
    host.assert_nothing_left();
}

/// More than `list` asks the kernel about one by one.
#[test]
fn of_many_mounts_those_that_are_covered_are_told_apart() {
    const MANY: usize = 12;
    let Some(host) = Host::new() else { return };
    let targets: Vec<PathBuf> = (0..MANY).map(|number| host.directory(format!("{number}"))).collect();
    for target in &targets {
        Request::new(&Client::named("tmpfs"), "tmpfs", "none", target).sandboxed(&host).succeeds();
    }
    for covered in [&targets[0], &targets[MANY - 1]] {
        foreign(covered);
    }
    for row in host.list() {
        let is_covered = [&targets[0], &targets[MANY - 1]].iter().any(|target| row["target"] == text(target));
        assert_eq!(row["covered"], is_covered, "{row}");
    }
    for covered in [&targets[0], &targets[MANY - 1]] {
        unmount_foreign(covered);
    }
    targets.iter().for_each(|target| drop(host.shorefast(&["umount", text(target)]).succeeds()));
    host.assert_nothing_left();
}

/// Should the record of such a mount be lost, nobody would know of the groups.
#[test]
fn a_client_that_dies_while_covered_leaves_no_control_groups() {
    let Some(host) = Host::new() else { return };
    let (source, target) = (host.directory("source"), host.directory("target"));
    let definition = fs::read_to_string(&Client::named("bindfs").definition).expect("a definition can be read");
    let client =
        Client::defined(&host, "bindfs", &format!("{definition}on_exit = \"detach\"\nlimits = {{ memory = \"256M\", pids = 64 }}\n"));
    Request::new(&client, "bindfs", &source, &target).sandboxed(&host).succeeds();
    let groups: Vec<PathBuf> = serde_json::from_value(the_record(&host)["cgroup"].clone()).expect("a record names its groups");
    assert!(!groups.is_empty() && groups.iter().all(|group| group.is_dir()), "{groups:?}");
    foreign(&target);
    daemon(&host.list()[0]).signal(Signal::KILL);
    wait::until("the groups to go", || groups.iter().all(|group| !group.exists()).then_some(()));
    assert_eq!((&host.list()[0]["state"], &host.list()[0]["covered"]), (&Value::from("dead"), &Value::from(true)));
    unmount_foreign(&target);
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn a_moved_mount_is_shown_and_unmounted_where_it_is_now() {
    let Some(host) = Host::new() else { return };
    let (target, elsewhere) = (host.directory("parent/target"), host.directory("elsewhere"));
    bindfs(&host, &target);
    fs::rename(host.path("parent"), host.path("renamed")).expect("a directory above a mount point can be renamed");
    assert_eq!(host.list()[0]["target"], "/srv/renamed/target");
    command::run(&["mount", "--move", "/srv/renamed/target", text(&elsewhere)]);
    assert_eq!(host.list()[0]["target"], text(&elsewhere));
    host.shorefast(&["umount", "/srv/renamed/target"]).exits(32).says("not a mount of ours");
    host.shorefast(&["inspect", text(&elsewhere)]).succeeds();
    host.shorefast(&["umount", text(&elsewhere)]).succeeds();
    host.assert_nothing_left();
}

/// Mounts in a mount namespace of its own, and stays there for a while.
fn in_a_namespace(host: &Host, target: &Path, after: &str) -> Running {
    let source = host.directory("source");
    let client = Client::named("bindfs");
    let request = Request::new(&client, "bindfs", &source, target);
    let words = request.arguments(Way::Directory, &[]);
    let mut there = std::process::Command::new("unshare");
    there.args(["--mount", "--propagation", "private", "sh", "-c", &format!("\"$@\" && {after}"), "sh"]).arg(host.binary()).args(words);
    Running::start(there)
}

#[test]
fn a_mount_in_another_namespace_is_told_apart() {
    let Some(host) = Host::new() else { return };
    let target = host.directory("target");
    let mut there = in_a_namespace(&host, &target, "exec sleep 300");
    let row = wait::until("the mount", || host.list().into_iter().find(|row| row["state"] == "serving"));
    assert!(row["namespace"].is_u64(), "{row}");
    assert_eq!(mountinfo::at(&target), []);
    host.shorefast(&["umount", text(&target)]).exits(32).says("another mount namespace").says("hint:");
    assert_eq!(host.list()[0]["state"], "serving");
    // By its id, it is clear what is meant.
    host.shorefast(&["umount", row["id"].as_str().expect("an id")]).succeeds();
    assert!(host.list().is_empty());
    there.kill();
    there.finish();
    host.assert_nothing_left();
}

#[test]
fn a_namespace_that_nobody_uses_ends_and_its_mounts_with_it() {
    let Some(host) = Host::new() else { return };
    let target: PathBuf = host.directory("target");
    in_a_namespace(&host, &target, "true").finish().succeeds();
    host.assert_nothing_left();
    assert!(host.list().is_empty());
}
