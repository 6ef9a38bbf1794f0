//! Nothing of the host is used up: what there is a limited number of stays there for others, however many mounts there are.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use shorefast_tests::client::Request;
use shorefast_tests::processes::{self, Process};
use shorefast_tests::resources::Resources;
use shorefast_tests::{Client, Host, cgroups, command, wait};

/// More than root has inotify instances (fs.inotify.max_user_instances is 128 by default).
const KERNEL_MOUNTS: usize = 200;
const FUSE_MOUNTS: usize = 20;

/// Of ours, for each FUSE mount: two processes, the one with the client's output, its syslog, its log and its children's signals open, the other
/// with a pidfd, the log, our binary and the recipe, and the run directory, because this test's host has a mount namespace of its own.
const FILES_PER_FUSE_MOUNT: usize = 11;

/// Where nobody ever calls anything but mount and plain umount, records of what is gone do not pile up.
#[test]
fn records_of_unmounted_kernel_filesystems_go_without_being_asked_for() {
    const TURNS: usize = 60;
    let Some(host) = Host::new() else { return };
    let (client, target) = (Client::named("tmpfs"), host.directory("target"));
    for _ in 0..TURNS {
        Request::new(&client, "tmpfs", "tmpfs", &target).sandboxed(&host).succeeds();
        command::run(&["umount", "/srv/target"]);
    }
    let left = fs::read_dir(host.run_directory()).expect("records are here").count();
    assert!(left < TURNS / 3, "{left} entries after {TURNS} mounts of which none is left");
    host.assert_nothing_left();
}

#[test]
fn a_client_that_serves_costs_two_small_processes_and_a_handful_of_files() {
    let Some(host) = Host::new() else { return };
    let client = Client::named("bindfs");
    let source = host.directory("source");
    let targets: Vec<PathBuf> = (0..FUSE_MOUNTS).map(|number| host.directory(format!("{number}"))).collect();
    for target in &targets {
        Request::new(&client, "bindfs", &source, target).sandboxed(&host).succeeds();
    }
    settled();
    let ours: Vec<Process> = processes::on_this_network().into_iter().filter(is_ours).collect();
    let used = Resources::of(&ours);
    assert_eq!(used.processes, 2 * FUSE_MOUNTS, "{used:?}");
    assert!(used.open_files <= FILES_PER_FUSE_MOUNT * FUSE_MOUNTS, "{used:?}");
    assert_eq!((used.inotify_instances, used.inotify_watches), (0, 0), "{used:?}");
    targets.iter().for_each(|target| drop(host.shorefast(&["umount".as_ref(), target.as_os_str()]).succeeds()));
    host.assert_nothing_left();
}

const LIMITS: &str = "limits = { memory = \"256M\", pids = 64 }";

fn limited_bindfs(host: &Host) -> Client {
    let definition = fs::read_to_string(&Client::named("bindfs").definition).expect("a definition can be read");
    Client::defined(host, "bindfs", &format!("{definition}\n{LIMITS}\n"))
}

/// Where nothing names it any more: no record, no process.
#[test]
fn an_empty_cgroup_whose_records_are_lost_goes_with_reconcile_but_not_while_it_is_new() {
    let Some(host) = Host::new() else { return };
    // Others on this machine may reconcile, too.
    let group = cgroups::Group::make();
    let _seen = group.as_root();
    host.settle();
    let (source, target) = (host.directory("source"), host.directory("target"));
    let started = Instant::now();
    Request::new(&limited_bindfs(&host), "bindfs", &source, &target).sandboxed(&host).succeeds();
    let row = host.shorefast(&["inspect", "--json", "/srv/target"]).succeeds().json();
    let directories: Vec<PathBuf> = serde_json::from_value(row["cgroups"].clone()).expect("paths");
    assert!(!directories.is_empty(), "{row}");
    let foreign = directories[0].with_file_name("of-somebody-else");
    fs::create_dir(&foreign).expect("root may make cgroups");
    // As after a kill before the record was written, in a run directory that is gone.
    fs::remove_dir_all(host.run_directory()).expect("a test's own /run");
    for member in ["keeper", "init"] {
        let pid = row[member].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a FUSE mount has one");
        Process { pid }.signal(Signal::KILL);
    }
    wait::until("the client to end", || directories.iter().all(|directory| is_empty(directory)).then_some(()));
    command::run(&["umount", "--lazy", "/srv/target"]);
    let report = host.shorefast(&["reconcile", "--json"]).succeeds().json();
    if started.elapsed() < Duration::from_secs(9) {
        assert!(directories.iter().all(|directory| directory.exists()), "taken from a mount that may be about to use them: {report}");
    }
    let removed = wait::until("the unused cgroup to go", || {
        let report = host.shorefast(&["reconcile", "--json"]).succeeds().json();
        directories.iter().all(|directory| !directory.exists()).then_some(report)
    });
    assert_eq!(removed["cgroups"], serde_json::json!([row["id"]]), "{removed}");
    std::thread::sleep(Duration::from_secs(1));
    assert!(foreign.exists());
    fs::remove_dir(&foreign).and_then(|()| fs::remove_dir(foreign.parent().expect("a cgroup"))).expect("they are empty");
    host.assert_nothing_left();
}

fn is_empty(cgroup: &Path) -> bool {
    fs::read_to_string(cgroup.join("cgroup.procs")).is_ok_and(|processes| processes.is_empty())
}

/// Another run directory's `reconcile` may take a new cgroup for an unused one, if the launching process was stopped for long.
#[test]
fn a_mount_makes_its_cgroup_again_if_somebody_removes_it_before_it_is_used() {
    const TURNS: usize = 20;
    let Some(host) = Host::new() else { return };
    let group = cgroups::Group::make();
    let _seen = group.as_root();
    host.settle();
    let (client, source, target) = (limited_bindfs(&host), host.directory("source"), host.directory("target"));
    let (is_over, removed) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                // Fails for those that have processes.
                let gone = cgroups::abandoned().iter().filter(|directory| fs::remove_dir(directory).is_ok()).count();
                removed.fetch_add(gone, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        for _ in 0..TURNS {
            let ran = Request::new(&client, "bindfs", &source, &target).sandboxed(&host);
            let shown = host.shorefast(&["inspect", "--json", "/srv/target"]);
            host.shorefast(&["umount", "/srv/target"]);
            if ran.code != Some(0) || shown.code != Some(0) {
                is_over.store(true, Ordering::Release);
                panic!("{ran:?} {shown:?}");
            }
        }
        is_over.store(true, Ordering::Release);
    });
    println!("{} removed under {TURNS} mounts", removed.load(Ordering::Relaxed));
    host.assert_nothing_left();
}

fn is_ours(process: &Process) -> bool {
    matches!(process.status("Name").as_deref(), Some("shorefast-init" | "shorefast-keep"))
}

/// What a mount no longer needs goes a moment after it has returned.
fn settled() -> Resources {
    let mut last = Resources::now();
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(50));
        let now = Resources::now();
        if (now, now.processes) == (last, last.processes) {
            return now;
        }
        last = now;
    }
    last
}

mod thorough {
    use super::*;

    /// Hundreds of mounts: a minute on a guest kernel.
    #[test]
    fn a_filesystem_that_the_kernel_serves_uses_nothing_but_a_mount_and_a_record() {
        let Some(host) = Host::new() else { return };
        let client = Client::named("tmpfs");
        let targets: Vec<PathBuf> = (0..KERNEL_MOUNTS).map(|number| host.directory(format!("{number}"))).collect();
        Request::new(&client, "tmpfs", "tmpfs", &targets[0]).sandboxed(&host).succeeds();
        let first = settled();
        for target in &targets[1..] {
            Request::new(&client, "tmpfs", "tmpfs", target).sandboxed(&host).succeeds();
        }
        assert_eq!(host.list().len(), KERNEL_MOUNTS);
        let all = settled();
        assert_eq!(Resources { keys: 0, ..all }, Resources { keys: 0, ..first }, "after {KERNEL_MOUNTS} mounts, and after one");
        // Others on this machine may make a key or two meanwhile.
        assert!(all.keys < first.keys + KERNEL_MOUNTS / 2, "{first:?} {all:?}");

        let (plain, ours) = targets.split_at(KERNEL_MOUNTS / 2);
        plain
            .iter()
            .for_each(|target| drop(command::run(&["umount".as_ref(), target.as_os_str()].map(|word| word.to_str().expect("ASCII")))));
        ours.iter().for_each(|target| drop(host.shorefast(&["umount".as_ref(), target.as_os_str()]).succeeds()));
        host.assert_nothing_left();
    }
}
