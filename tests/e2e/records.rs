//! Records that are damaged, lost or doubled: what happens to one mount's record harms no other mount.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use shorefast_tests::client::Request;
use shorefast_tests::command::Ran;
use shorefast_tests::path::text;
use shorefast_tests::processes::Process;
use shorefast_tests::{Client, Host, Way, command, mountinfo, wait};

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

/// What one mount's end takes does not depend on how many others there are. The record of another one, which nobody can read to its end,
/// stands for all of them.
#[test]
fn who_ends_a_mount_reads_the_records_of_no_others() {
    let Some(host) = Host::new() else { return };
    for (how, is_by_id) in [("", false), ("", true), ("--force", false)] {
        let target = bindfs(&host, "target");
        let name = if is_by_id { id_of(&host, &target) } else { text(&target).to_owned() };
        let words: Vec<_> = ["umount", how, &name].into_iter().filter(|word| !word.is_empty()).collect();
        let record = host.run_directory().join("m0001-000000000001.json");
        // Whoever opens it to read waits for a writer.
        command::run(&["mkfifo", text(&record)]);
        let ended = host.start(&words).finish();
        let after = mountinfo::at(&target).len();
        fs::remove_file(&record).expect("a test's own /run");
        ended.succeeds();
        assert_eq!(after, 0, "{how} {name}");
        host.assert_nothing_left();
    }
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

/// Whoever looks for lost records among the processes of the host looks at no descriptor of a stranger.
#[test]
fn a_lost_record_is_found_without_waiting_for_what_others_hold() {
    let Some(host) = Host::new() else { return };
    let (stalling, target) = (bindfs(&host, "stalling"), bindfs(&host, "target"));
    let row = host.shorefast(&["inspect", "--json", text(&stalling)]).succeeds().json();
    let daemon = Process { pid: row["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a daemon") };
    let id = id_of(&host, &target);
    // A stranger with the name of ours and, where ours have their log, a descriptor of a filesystem that does not answer.
    let script = "printf shorefast-init > /proc/self/comm; exec 5< /srv/stalling/file; echo; read";
    let mut stranger =
        Command::new("bash").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash can be run");
    let mut ready = [0];
    std::io::Read::read_exact(&mut stranger.stdout.take().expect("a pipe"), &mut ready).expect("it has opened the file");
    daemon.signal(Signal::STOP);
    // What the kernel remembers of the file is forgotten.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    for file in ["json", "log"] {
        fs::remove_file(host.run_directory().join(format!("{id}.{file}"))).expect("a test's own /run");
    }
    let mut reconcile = Command::new("timeout");
    reconcile.args(["--signal=KILL", "20", text(host.binary()), "reconcile"]);
    let reconciled = command::finish(reconcile);
    daemon.signal(Signal::CONT);
    stranger.kill().and_then(|()| stranger.wait()).expect("it can be ended");
    assert_eq!(reconciled.code, Some(0), "{reconciled:?}");
    assert!(host.list().iter().any(|row| row["id"] == id), "{:?}", host.list());
    for mount in [&stalling, &target] {
        host.shorefast(&["umount", text(mount)]).succeeds();
    }
    host.assert_nothing_left();
}

#[test]
fn a_mount_whose_record_is_lost_still_gets_a_new_client() {
    // Before, a mount whose record is lost cannot be told from a later one with the same id, and stays as it is.
    if shorefast_tests::kernel::version() < (6, 8) {
        return;
    }
    let Some(host) = Host::new() else { return };
    let target = bindfs(&host, "target");
    let pid = host.list()[0]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a daemon");
    fs::remove_dir_all(host.run_directory()).expect("a test's own /run");
    Process { pid }.signal(Signal::KILL);
    wait::until("a new client, with a record", || {
        let row = host.list().into_iter().next()?;
        (row["state"] == "serving" && row["pid"] != pid).then_some(())
    });
    assert_serves(&target);
    host.shorefast(&["umount", text(&target)]).succeeds();
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

/// Before Linux 6.8 the kernel gives the ids of a mount that is gone to the next one, at once. Whoever still has the record of the first (its
/// keeper, another call) must not take the second for it. The records are made as such a kernel has them, whatever this one is.
#[test]
fn a_mount_that_got_the_ids_of_an_earlier_one_is_not_taken_for_it() {
    const EARLIER: &str = "m0001-0123456789ab";
    let Some(host) = Host::new() else { return };
    let (target, run) = (host.directory("target"), host.run_directory());
    let run_dir = text(run);
    let dead_client = serde_json::json!({ "pid": 1, "started": 1 });
    let calls: [&[&str]; 4] =
        [&["reconcile"], &["--run-dir", run_dir, "__ended", EARLIER, "-"], &["umount", "--force", EARLIER], &["list"]];
    for (call, init) in calls.into_iter().flat_map(|call| [(call, &dead_client), (call, &Value::Null)]) {
        Request::new(&Client::named("tmpfs"), "tmpfs", "none", &target).sandboxed(&host).succeeds();
        let id = id_of(&host, &target);
        let file = run.join(format!("{id}.json"));
        let mut record: Value = serde_json::from_slice(&fs::read(&file).expect("a record can be read")).expect("a record is JSON");
        let [mount] = &mountinfo::at(&target)[..] else { panic!("one mount is there") };
        let (major, minor) = mount.device.split_once(':').expect("two numbers");
        let number = |text: &str| text.parse::<u32>().expect("a number");
        record["mount"] = serde_json::json!({ "id": mount.id, "unique": false, "major": number(major), "minor": number(minor) });
        fs::write(&file, record.to_string()).expect("a test's own /run");
        fs::remove_dir_all(run.join("by-mount")).and_then(|()| fs::create_dir(run.join("by-mount"))).expect("a test's own /run");
        fs::hard_link(&file, run.join(format!("by-mount/reusable-{}", mount.id))).expect("a test's own /run");
        record["id"] = EARLIER.into();
        record["target"] = "/srv/elsewhere".into();
        record["init"] = init.clone();
        record["keeper"] = Value::Null;
        let earlier = run.join(format!("{EARLIER}.json"));
        fs::write(&earlier, record.to_string()).expect("a test's own /run");

        host.shorefast(call).succeeds();
        assert_eq!(mountinfo::at(&target).len(), 1, "{call:?} {init} took the later mount");
        assert!(!earlier.exists() || call == ["list"], "{call:?} {init} left the earlier record");
        assert_eq!(host.list().len(), 1, "{call:?} {init}");
        // Not by its target alone: also by the index, on kernels that have such ids.
        assert!(run.join(format!("by-mount/reusable-{}", mount.id)).exists(), "{call:?} {init}");
        assert_eq!(id_of(&host, &target), id, "{call:?} {init}");
        // Plainly: on a kernel with unique ids, ours finds no mount with such an id.
        command::run(&["umount", text(&target)]);
        host.shorefast(&["reconcile"]).succeeds();
        host.assert_nothing_left();
    }
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

/// As many as there are sandboxes at a time (`spec::Ids::SLOTS`).
const SLOTS: u16 = 32_766;

/// All slots of a run directory but one are taken by mounts that this process makes.
fn take_all_slots_but(run: &Path, free: u16) {
    let starting = run.join("starting");
    fs::create_dir_all(&starting).expect("a test's own directory");
    let stat = fs::read_to_string("/proc/self/stat").expect("a process has one");
    let started = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)).and_then(|ticks| ticks.parse::<u64>().ok());
    let maker = serde_json::json!({ "owner": { "pid": std::process::id(), "started": started.expect("a number") } });
    let model = run.join("model");
    fs::write(&model, maker.to_string()).expect("a test's own directory");
    for slot in (0..SLOTS).filter(|slot| *slot != free) {
        fs::hard_link(&model, starting.join(format!("m{slot:04x}"))).expect("a test's own directory");
    }
    fs::remove_file(model).expect("it is there");
}

/// A tmpfs at `target`, recorded in `run`.
fn tmpfs_recorded_in(host: &Host, run: &Path, target: &Path, timeout: &str) -> Ran {
    let client = Client::named("tmpfs");
    let words = Request::new(&client, "tmpfs", "none", target).arguments(Way::Directory, &["--timeout", timeout]);
    host.shorefast(&[vec!["--run-dir".into(), run.into()], words].concat())
}

#[test]
fn without_a_free_slot_a_mount_fails_in_time_and_the_last_free_one_is_found() {
    const FREE: u16 = 0x1a2b;
    let Some(host) = Host::new() else { return };
    let (other_run, target) = (host.directory("other-run"), host.directory("target"));
    take_all_slots_but(&other_run, FREE);
    let last = other_run.join(format!("starting/m{FREE:04x}"));
    let mount = |timeout: &str| tmpfs_recorded_in(&host, &other_run, &target, timeout);
    mount("20s").succeeds();
    let record =
        fs::read_dir(&other_run).expect("it is ours").flatten().find(|entry| entry.path().extension().is_some_and(|end| end == "json"));
    let record = record.expect("a mount has a record").file_name();
    assert!(record.to_string_lossy().starts_with(&format!("m{FREE:04x}-")), "{record:?}");
    host.shorefast(&["--run-dir", text(&other_run), "umount", text(&target)]).succeeds();

    fs::hard_link(other_run.join("starting/m0000"), last).expect("it is ours");
    let started = std::time::Instant::now();
    mount("2s").exits(2).says("no free id was found");
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(mountinfo::at(&target).is_empty());
    fs::remove_dir_all(&other_run).expect("it is ours");
    host.assert_nothing_left();
}

#[test]
fn ids_that_processes_of_another_run_directory_have_are_not_given_again() {
    let Some(host) = Host::new() else { return };
    let served = bindfs(&host, "served");
    let id = id_of(&host, &served);
    let slot = u16::from_str_radix(&id[1..5], 16).expect("an id names its slot");
    let (other_run, target) = (host.directory("other-run"), host.directory("target"));
    take_all_slots_but(&other_run, slot);
    let mount = || tmpfs_recorded_in(&host, &other_run, &target, "20s");
    mount().exits(2).says("no free id was found");
    host.shorefast(&["umount", text(&served)]).succeeds();
    // They are free once somebody has reaped the sandbox's first process.
    wait::until("the ids to be free again", || (mount().code == Some(0)).then_some(()));
    host.shorefast(&["--run-dir", text(&other_run), "umount", text(&target)]).succeeds();
    fs::remove_dir_all(&other_run).expect("it is ours");
    host.assert_nothing_left();
}

/// The power cut: what is on the disk by the time that `mount` has returned, and nothing else.
#[test]
fn a_record_on_disk_survives_a_power_cut() {
    let Some(host) = Host::new() else { return };
    if !Path::new("/dev/loop-control").exists() {
        return println!("left out: this kernel has no loop devices");
    }
    let (disk, run, target) = (host.file("disk", ""), host.directory("run-on-disk"), host.directory("target"));
    command::run(&["truncate", "--size=64M", text(&disk)]);
    command::run(&["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", text(&disk)]);
    command::run(&["mount", "-o", "loop", text(&disk), text(&run)]);
    command::run(&["sync", "--file-system", text(&run)]);
    tmpfs_recorded_in(&host, &run, &target, "20s").succeeds();
    let after = disk.with_file_name("disk-after-the-power-cut");
    fs::copy(&disk, &after).expect("a disk can be copied");

    let found = host.directory("found");
    command::run(&["mount", "-o", "loop", text(&after), text(&found)]);
    let entries: Vec<PathBuf> = fs::read_dir(&found).expect("it can be read").flatten().map(|entry| entry.path()).collect();
    let record = entries.iter().find(|path| path.extension().is_some_and(|end| end == "json"));
    let record = fs::read(record.unwrap_or_else(|| panic!("the record is lost: {entries:?}"))).expect("it can be read");
    let record: Value = serde_json::from_slice(&record).expect("a whole record");
    assert_eq!(record["target"], text(&target));
    command::run(&["umount", text(&found)]);
    host.shorefast(&["--run-dir", text(&run), "umount", text(&target)]).succeeds();
    command::run(&["umount", text(&run)]);
    host.assert_nothing_left();
}
