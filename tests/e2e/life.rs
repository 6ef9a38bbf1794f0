//! Life, death and truth: what ends a mount, what a client's end does to it, and that success means a mount that serves.
//!
//! That stdout and stderr reach their end when `mount` returns is checked by every test that mounts: the harness waits for it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use shorefast_tests::client::{Request, Way};
use shorefast_tests::path::text;
use shorefast_tests::processes::Process;
use shorefast_tests::{Client, Host, Ran, cgroups, command, mountinfo, wait};

struct Mounted {
    host: Host,
    target: PathBuf,
    daemon: Process,
}

/// A local client that is mounted and serves.
fn mounted(more_keys: &str) -> Option<Mounted> {
    let host = Host::new()?;
    let definition = fs::read_to_string(&Client::named("bindfs").definition).expect("a definition can be read");
    let client = Client::defined(&host, "bindfs", &format!("{definition}\n{more_keys}\n"));
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::write(source.join("file"), "content").expect("the source can be written to");
    Request::new(&client, "bindfs", source, &target).sandboxed(&host).succeeds();
    assert_eq!(fs::read(target.join("file")).expect("the mount can be read"), b"content");
    let pid = host.list()[0]["pid"].as_u64().expect("a served mount has a daemon");
    let daemon = Process { pid: u32::try_from(pid).expect("a pid") };
    assert_eq!(daemon.status("Name").as_deref(), Some("bindfs"));
    Some(Mounted { host, target, daemon })
}

#[test]
fn a_plain_umount_ends_everything() {
    let Some(Mounted { host, target, .. }) = mounted("") else { return };
    command::run(&["umount", text(&target)]);
    host.assert_nothing_left();
    assert!(host.list().is_empty());
}

/// What the client saw of its mount is taken away before `mount` returns: nobody else is needed for an umount to be the end.
#[test]
fn a_plain_umount_ends_the_client_of_a_mount_whose_keeper_died_at_once() {
    let Some(host) = Host::new() else { return };
    let client = Client::named("bindfs");
    let (source, target) = (host.directory("source"), host.directory("target"));
    for _ in 0..10 {
        let mut mount = std::process::Command::new(host.binary());
        mount.args(Request::new(&client, "bindfs", &source, &target).arguments(Way::Directory, &[]));
        assert!(mount.status().expect("it runs").success());
        let record = fs::read_dir(host.run_directory()).expect("a record").flatten().map(|entry| entry.path());
        let record = record.into_iter().find(|path| path.extension().is_some_and(|end| end == "json")).expect("a record");
        let record: serde_json::Value = serde_json::from_slice(&fs::read(record).expect("a record")).expect("JSON");
        let keeper = record["keeper"]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a keeper");
        Process { pid: keeper }.signal(Signal::KILL);
        command::run(&["umount", text(&target)]);
        wait::within(Duration::from_secs(10), || host.sandboxed().is_empty().then_some(()))
            .expect("the client is served no more, but lives on");
        host.shorefast(&["reconcile"]).succeeds();
        host.assert_nothing_left();
    }
}

#[test]
fn a_lazy_umount_ends_everything_once_nobody_uses_the_mount() {
    let Some(Mounted { host, target, daemon }) = mounted("") else { return };
    let user = fs::File::open(target.join("file")).expect("the mount can be read");
    command::run(&["umount", "--lazy", text(&target)]);
    assert!(daemon.status("Name").is_some(), "the file is still open");
    drop(user);
    host.assert_nothing_left();
}

#[test]
fn our_own_umount_leaves_nothing_when_it_returns() {
    let Some(Mounted { host, target, daemon }) = mounted("") else { return };
    host.shorefast(&["umount", text(&target)]).succeeds();
    assert_eq!(mountinfo::at(&target), []);
    assert_eq!(daemon.status("Name"), None);
    assert!(host.list().is_empty());
    host.assert_nothing_left();
}

#[test]
fn a_busy_mount_is_not_taken_away() {
    let Some(Mounted { host, target, .. }) = mounted("") else { return };
    let user = fs::File::open(target.join("file")).expect("the mount can be read");
    host.shorefast(&["umount", text(&target)]).exits(32).says("hint:");
    assert_eq!(mountinfo::at(&target).len(), 1);
    drop(user);
    host.shorefast(&["umount", text(&target)]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn a_client_that_is_told_to_end_leaves_no_dead_mount() {
    let Some(Mounted { host, daemon, .. }) = mounted("") else { return };
    daemon.signal(Signal::TERM);
    host.assert_nothing_left();
}

#[test]
fn a_client_that_is_killed_leaves_no_dead_mount_if_its_definition_says_so() {
    let Some(Mounted { host, daemon, .. }) = mounted("on_exit = \"detach\"") else { return };
    daemon.signal(Signal::KILL);
    host.assert_nothing_left();
}

/// As a supervisor does that is told of its client's death, while the keeper is about to take the dead mount away.
#[test]
fn a_target_can_be_mounted_again_right_after_its_clients_death() {
    let Some(host) = Host::new() else { return };
    let definition = fs::read_to_string(&Client::named("bindfs").definition).expect("a definition can be read");
    let client = Client::defined(&host, "bindfs", &format!("{definition}\non_exit = \"detach\"\n"));
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::write(source.join("file"), "content").expect("the source can be written to");
    let request = Request::new(&client, "bindfs", source, &target);
    request.sandboxed(&host).succeeds();
    for turn in 0..60 {
        let daemon = host.sandboxed().into_iter().find(|process| process.status("Name").as_deref() == Some("bindfs")).expect("it serves");
        daemon.signal(Signal::KILL);
        std::thread::sleep(Duration::from_micros(turn * 100));
        request.sandboxed(&host).succeeds();
        assert_eq!(fs::read(target.join("file")).expect("the mount can be read"), b"content", "turn {turn}");
        assert_eq!(mountinfo::at(&target).len(), 1, "turn {turn}: the dead one is still there, below");
        assert_eq!(host.list().len(), 1, "turn {turn}: {:?}", host.list());
        assert_eq!(host.list()[0]["target"], "/srv/target");
    }
    host.shorefast(&["umount", text(&target)]).succeeds();
    host.assert_nothing_left();
}

/// A frozen process hears no signal, not even SIGKILL, before it is thawed (version 1).
#[test]
fn a_frozen_client_ends_when_it_is_forced_to() {
    let Some(Mounted { host, target, .. }) = mounted("") else { return };
    let group = cgroups::Frozen::with(&host.sandboxed());
    let ran = host.shorefast(&["umount", "--force", text(&target)]).succeeds();
    assert!(ran.took < Duration::from_secs(20), "{:?}", ran.took);
    assert_eq!(host.sandboxed(), [], "it was said to be gone");
    drop(group);
    host.assert_nothing_left();
}

#[test]
fn a_killed_sandbox_leaves_no_dead_mount_if_its_definition_says_so() {
    let Some(Mounted { host, .. }) = mounted("on_exit = \"detach\"") else { return };
    host.sandboxed().iter().for_each(|process| process.signal(Signal::KILL));
    host.assert_nothing_left();
}

#[test]
fn a_dead_mount_stays_if_the_definition_says_so() {
    let Some(Mounted { host, target, daemon }) = mounted("on_exit = \"keep\"") else { return };
    daemon.signal(Signal::KILL);
    wait::until("the client to end", || daemon.status("Name").is_none().then_some(()));
    wait::until("the mount to be dead", || (host.list()[0]["state"] == "dead").then_some(()));
    let error = fs::read_dir(&target).expect_err("nobody serves it");
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOTCONN.raw_os_error()));
    host.shorefast(&["umount", text(&target)]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn umount_is_bounded_when_the_client_hangs() {
    for manner in [&["umount", "--force", "/srv/target"][..], &["umount", "--lazy", "/srv/target"], &["umount", "/srv/target"]] {
        let Some(Mounted { host, target, daemon }) = mounted("") else { return };
        daemon.signal(Signal::STOP);
        let ran = host.shorefast(manner);
        assert!(ran.took < Duration::from_secs(45), "{manner:?} took {:?}", ran.took);
        assert_eq!(mountinfo::at(&target), [], "{manner:?} {}", ran.stderr);
        if manner.contains(&"--force") {
            ran.succeeds();
            host.assert_nothing_left();
        }
    }
}

#[test]
fn reconcile_cleans_up_after_the_death_of_everything() {
    let Some(Mounted { host, .. }) = mounted("limits = { pids = 50 }\non_exit = \"detach\"") else { return };
    let inspected = host.shorefast(&["inspect", "--json", "/srv/target"]).succeeds().json();
    let keeper = inspected["keeper"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a keeper");
    Process { pid: keeper }.signal(Signal::KILL);
    host.sandboxed().iter().for_each(|process| process.signal(Signal::KILL));
    wait::until("the client to end", || host.sandboxed().is_empty().then_some(()));
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

fn script_fails(script: &str, more: &[&str]) -> Option<(Host, Ran)> {
    let host = Host::new()?;
    let client = Client::script(&host, script, "");
    let request = Request::new(&client, "script", "none", host.directory("target"));
    let ran = host.shorefast(&request.arguments(Way::Directory, more)).exits(32);
    assert_eq!(mountinfo::at(&request.target), []);
    host.assert_nothing_left();
    Some((host, ran))
}

#[test]
fn a_failed_helper_is_quoted() {
    let Some((_, ran)) = script_fails("echo first line >&2; echo the server is down; exit 3", &[]) else { return };
    ran.says("helper failed").says("exit status 3").says("first line").says("the server is down").says("hint:");
}

#[test]
fn a_refused_mount_says_what_was_refused() {
    let Some((_, ran)) = script_fails("exec mount -t ramfs none \"$1\"", &[]) else { return };
    ran.says("ramfs").says("kernel_types").says("hint:");
}

#[test]
fn the_kernels_own_words_are_in_the_error() {
    let Some((_, ran)) = script_fails("exec mount -t tmpfs -o size=nonsense none \"$1\"", &[]) else { return };
    ran.says("nonsense").says("EINVAL");
}

#[test]
fn a_helper_that_succeeds_without_a_mount_is_a_failure() {
    let Some((_, ran)) = script_fails("echo all is well", &[]) else { return };
    ran.says("mounted nothing").says("all is well");
}

#[test]
fn a_helper_that_mounts_and_then_fails_leaves_no_mount() {
    let Some((_, ran)) = script_fails("mount -t tmpfs none \"$1\"; echo changed my mind >&2; exit 1", &[]) else { return };
    ran.says("changed my mind");
}

#[test]
fn a_helper_that_is_killed_is_a_failure() {
    let Some((_, ran)) = script_fails("kill -9 $$", &[]) else { return };
    ran.says("signal 9");
}

#[test]
fn a_helper_that_hangs_is_given_up() {
    let Some((_, ran)) = script_fails("echo connecting >&2; exec sleep 1000", &["--timeout", "2s"]) else { return };
    assert!(ran.took < Duration::from_secs(10), "{:?}", ran.took);
    ran.says("2 s").says("connecting").says("hint:");
}

/// A FUSE client in shell: it mounts and exits, and what it leaves behind holds the device but never answers. (Before Linux 6.2
/// only the process that mounts gets a connection: there it is dead, not silent, once mount(8) has ended.)
const NEVER_SERVES: &str = "exec 3<>/dev/fuse
mount -i -t fuse.script -o fd=3,rootmode=40000,user_id=0,group_id=0 none \"$1\" || exit 1
sleep 1000 & exit 0";

#[test]
fn a_mount_that_never_serves_is_given_up() {
    let Some((_, ran)) = script_fails(NEVER_SERVES, &["--timeout", "2s"]) else { return };
    assert!(ran.took < Duration::from_secs(10), "{:?}", ran.took);
    ran.says("mounted but does not");
}

#[test]
fn a_client_that_dies_after_mounting_is_a_failure() {
    let script = NEVER_SERVES.replace("sleep 1000 &", "exec 3<&-;");
    let Some((_, ran)) = script_fails(&script, &["--timeout", "20s"]) else { return };
    assert!(ran.took < Duration::from_secs(15), "{:?}", ran.took);
}

#[test]
fn a_killed_caller_leaves_nothing() {
    let Some(host) = Host::new() else { return };
    let client = Client::script(&host, "exec sleep 1000", "");
    let request = Request::new(&client, "script", "none", host.directory("target"));
    let mut running = host.start(&request.arguments(Way::Directory, &[]));
    host.wait_for_client("sleep");
    running.kill();
    assert_eq!(running.finish().code, None);
    host.shorefast(&["reconcile"]).succeeds();
    host.assert_nothing_left();
}

#[test]
fn logs_show_what_the_client_said() {
    let Some(host) = Host::new() else { return };
    let definition = "types = [\"bindfs\"]\nkernel_types = [\"fuse\"]\nsource = \"path\"\nnamespaces = { user = \"host\" }\ncommand = [\"sh\", \"-c\", 'echo to stdout; echo to stderr >&2; exec bindfs \"$@\"', \"sh\", \"{source}\", \"{target}\"]\n";
    let client = Client::defined(&host, "bindfs", definition);
    let request = Request::new(&client, "bindfs", host.directory("source"), host.directory("target"));
    let ran = request.sandboxed(&host).succeeds();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    let logs = host.shorefast(&["logs", text(&request.target)]).succeeds();
    assert_eq!(logs.stdout, "to stdout\nto stderr\n");
    command::run(&["umount", text(&request.target)]);
    host.assert_nothing_left();
}

#[test]
fn a_talkative_client_cannot_fill_the_host() {
    let Some(host) = Host::new() else { return };
    let script = r"head -c 2000000 /dev/zero | tr '\0' x | fold -w 10000; echo; echo the end; exit 1";
    let client = Client::script(&host, script, "");
    let request = Request::new(&client, "script", "none", host.directory("target"));
    let ran = request.sandboxed(&host).exits(32).says("the end");
    assert!(ran.stderr.len() < 65536, "{} bytes", ran.stderr.len());
    host.assert_nothing_left();
}
