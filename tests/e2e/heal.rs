//! A client dies, and its mount lives: a new client takes over, nobody who works by path notices, and the directory below is never seen.

#[path = "replace/load.rs"]
mod load;
#[path = "heal/limits.rs"]
mod limits;
#[path = "heal/kills.rs"]
mod kills;
#[path = "heal/hangs.rs"]
mod hangs;
#[path = "heal/soak.rs"]
mod soak;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use load::{Access, Load};
use rustix::process::Signal;
use shorefast_tests::client::{Request, Way};
use shorefast_tests::path::text;
use shorefast_tests::processes::Process;
use shorefast_tests::servers::Sshd;
use shorefast_tests::{Client, Host, Root, command, mountinfo, wait};

/// As many crashes as a test likes.
const OFTEN: &str = "heal = { crashes = 1000 }";

struct Scene {
    host: Host,
    target: PathBuf,
}

/// A bindfs that serves. The directory below its mount has a file that nobody may ever see.
fn scene(more_keys: &str) -> Option<Scene> {
    scene_on(Host::new()?, more_keys).into()
}

fn scene_on(host: Host, more_keys: &str) -> Scene {
    let definition = fs::read_to_string(&Client::named("bindfs").definition).expect("a definition can be read");
    let client = Client::defined(&host, "bindfs", &format!("{definition}\n{more_keys}\n"));
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::create_dir_all(source.join("sub")).expect("the source can be written to");
    fs::write(source.join("file"), "hello").expect("the source can be written to");
    fs::write(source.join("sub/file"), "in sub").expect("the source can be written to");
    // The client may do there what others may.
    fs::set_permissions(&source, fs::Permissions::from_mode(0o777)).expect("the source is the test's own");
    fs::write(target.join(BELOW), "").expect("the target can be written to");
    Request::new(&client, "bindfs", source, &target).sandboxed(&host).succeeds();
    Scene { host, target }
}

const BELOW: &str = "the-directory-below";

impl Scene {
    fn daemon(&self) -> Process {
        wait::until("a client that serves", || {
            let pid = self.host.list().first()?["pid"].as_u64()?;
            Some(Process { pid: u32::try_from(pid).ok()? })
        })
    }

    fn inspect(&self) -> serde_json::Value {
        self.host.shorefast(&["inspect", "--json", text(&self.target)]).succeeds().json()
    }

    fn state(&self) -> String {
        self.host.list().first().and_then(|row| row["state"].as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Kills the client, and waits until another one serves.
    fn crash(&self) {
        let before = self.daemon();
        before.signal(Signal::KILL);
        self.healed(before);
    }

    fn healed(&self, before: Process) {
        wait::until("a new client", || {
            let row = self.host.list().into_iter().next()?;
            (row["state"] == "serving" && row["pid"].as_u64().is_some_and(|pid| pid != u64::from(before.pid))).then_some(())
        });
    }

    fn end(&self) {
        self.host.shorefast(&["umount", text(&self.target)]).succeeds();
        self.host.assert_nothing_left();
        assert!(self.target.join(BELOW).exists());
    }
}

/// The process that [`Load`] starts.
#[test]
#[ignore = "it is the process that other tests start"]
fn loading_process() {
    load::loading_process();
}

#[test]
fn a_client_that_dies_in_any_way_is_replaced() {
    let Some(scene) = scene(OFTEN) else { return };
    for signal in [Signal::KILL, Signal::SEGV, Signal::ABORT, Signal::BUS] {
        let before = scene.daemon();
        before.signal(signal);
        let found = fs::metadata(scene.target.join("file")).expect("users wait, and do not fail");
        assert_eq!(found.len(), 5, "{signal:?}");
        scene.healed(before);
        assert_eq!(mountinfo::at(&scene.target).len(), 1, "{signal:?}: the number of mounts is as before");
    }
    let crashes = scene.inspect()["crashes"].as_array().cloned().unwrap_or_default();
    let ends: Vec<_> = crashes.iter().map(|crash| crash["client"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(ends, [9, 11, 6, 7].map(|signal| format!("killed by signal {signal}")));
    assert!(crashes.iter().all(|crash| crash["healed_after_ms"].is_u64()), "{crashes:?}");
    scene.end();
}

#[test]
fn a_sandbox_that_dies_as_a_whole_is_replaced() {
    let Some(scene) = scene(OFTEN) else { return };
    let before = scene.daemon();
    scene.host.sandboxed().iter().for_each(|process| process.signal(Signal::KILL));
    scene.healed(before);
    let init = scene.inspect()["init"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a first process");
    let before = scene.daemon();
    Process { pid: init }.signal(Signal::KILL);
    scene.healed(before);
    assert_eq!(fs::read(scene.target.join("file")).expect("it is served"), b"hello");
    scene.end();
}

#[test]
fn a_client_that_ends_in_order_is_not_replaced() {
    let Some(scene) = scene("") else { return };
    scene.daemon().signal(Signal::TERM);
    wait::until("the mount to end", || scene.host.list().is_empty().then_some(()));
    scene.host.assert_nothing_left();
}

/// On the host, and in another mount namespace that has a read-only directory of it.
#[test]
fn nobody_who_works_by_path_notices() {
    let Some(host) = Host::with_root(Root::Shared) else { return };
    let scene = scene_on(host, OFTEN);
    let inside = scene.host.directory("inside");
    let script = format!(
        "mount --make-rprivate / && mount --bind {0}/sub {1} && mount -o remount,bind,ro {1} && echo ready && exec sleep 1000",
        text(&scene.target),
        text(&inside)
    );
    let mut other = Command::new("unshare").args(["-m", "sh", "-c", &script]).spawn().expect("unshare");
    let enter: Vec<_> = ["nsenter", "-m", "-t", &other.id().to_string()].map(str::to_owned).to_vec();
    wait::until("the other namespace", || {
        let table = fs::read_to_string(format!("/proc/{}/mountinfo", other.id())).ok()?;
        table.lines().any(|line| line.contains("/srv/inside ro,")).then_some(())
    });
    let here = Load::start(&[], &scene.target, Access::ReadWrite, "here");
    let there = Load::start(&enter, &inside, Access::ReadOnly, "there");
    for _ in 0..CRASHES {
        here.completes_a_round();
        there.completes_a_round();
        scene.crash();
    }
    load::assert_nothing_failed("here", &here.finish());
    load::assert_nothing_failed("there", &there.finish());
    let table = fs::read_to_string(format!("/proc/{}/mountinfo", other.id())).expect("its mount table");
    let of_it: Vec<_> = table.lines().filter(|line| line.contains(" /srv/inside ")).collect();
    assert!(of_it.len() == 1 && of_it[0].contains("/srv/inside ro,"), "{of_it:?}");
    other.kill().expect("a child of ours");
    other.wait().expect("a child of ours");
    scene.end();
}

const CRASHES: u32 = 6;

/// What a caller has open on the old mount gets an error, and no hang.
#[test]
fn descriptors_of_the_old_mount_fail_at_once() {
    let Some(scene) = scene(OFTEN) else { return };
    let file = fs::File::open(scene.target.join("file")).expect("it is served");
    let directory = fs::File::open(scene.target.join("sub")).expect("it is served");
    // Told when to look at its working directory.
    let mut inside = Command::new("sh");
    inside.args(["-c", "read word; exec ls ."]).current_dir(scene.target.join("sub"));
    let mut inside = inside.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sh");
    scene.crash();
    let begun = std::time::Instant::now();
    let mut bytes = [0; 5];
    let read = std::os::unix::fs::FileExt::read_at(&file, &mut bytes, 4096);
    assert!(read.is_err() || begun.elapsed() < Duration::from_secs(1), "{read:?}");
    let listed = rustix::fs::Dir::read_from(&directory).and_then(|mut entries| entries.try_for_each(|entry| entry.map(drop)));
    assert!(listed.is_err(), "{listed:?}");
    let opened = rustix::fs::openat(&directory, "file", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty());
    assert!(opened.is_err(), "{opened:?}");
    let mut word = inside.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut word, b"look\n").expect("it waits");
    drop(word);
    let end = std::time::Instant::now() + Duration::from_secs(60);
    let status = shorefast_sys::deadline::exit_or_kill(&mut inside, end).expect("a child of ours");
    assert!(status.is_some_and(|status| !status.success()), "{status:?}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    drop((file, directory));
    scene.end();
}

/// The caller's key is needed again, and is no longer where it was.
#[test]
fn secrets_come_from_memory() {
    let Some(host) = Host::new() else { return };
    let server = Sshd::start(&host);
    let client = Client::named("sshfs");
    let target = host.directory("target");
    let mut request = Request::new(&client, "sshfs", server.source(), &target);
    request.options = server.options().into();
    request.sandboxed(&host).succeeds();
    fs::remove_file(&server.key).expect("the key is the test's own");
    let scene = Scene { host, target };
    fs::write(server.share.join("file"), "hello").expect("the server's directory is the test's own");
    scene.crash();
    assert_eq!(fs::read(scene.target.join("file")).expect("it is served"), b"hello");
    scene.host.shorefast(&["umount", text(&scene.target)]).succeeds();
}

/// The next call of ours gives a mount whose keeper was killed another one, which can do all that the first could.
#[test]
fn a_mount_whose_keeper_was_killed_gets_another() {
    let Some(scene) = scene(OFTEN) else { return };
    let keeper = |scene: &Scene| scene.inspect()["keeper"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a keeper");
    let first = keeper(&scene);
    Process { pid: first }.signal(Signal::KILL);
    wait::until("another keeper", || (keeper(&scene) != first).then_some(()));
    assert_eq!(fs::read(scene.target.join("file")).expect("it is served all the time"), b"hello");
    scene.crash();
    assert_eq!(fs::read(scene.target.join("file")).expect("it is served"), b"hello");
    scene.end();
}

/// Looks for the directory below without a pause, while `act` runs.
fn while_nobody_sees_below<T>(target: &Path, act: impl FnOnce() -> T) -> T {
    let (stop, below) = (std::sync::atomic::AtomicBool::new(false), target.join(BELOW));
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                seen += u32::from(fs::symlink_metadata(&below).is_ok());
            }
            seen
        });
        let result = act();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(watcher.join().expect("it does not panic"), 0, "the directory below was seen");
        result
    })
}

#[test]
fn the_directory_below_is_never_seen() {
    let Some(scene) = scene(OFTEN) else { return };
    while_nobody_sees_below(&scene.target, || (0..10).for_each(|_| scene.crash()));
    scene.end();
}

/// Mounting what is there already says so, also while a new client is being started.
#[test]
fn a_supervisor_that_mounts_again_is_told_that_it_is_there() {
    let Some(scene) = scene(OFTEN) else { return };
    let client = Client::from_file(scene.host.path("client.toml"), "bindfs");
    let request = Request::new(&client, "bindfs", scene.host.path("source"), &scene.target);
    for _ in 0..5 {
        let before = scene.daemon();
        before.signal(Signal::KILL);
        scene.host.shorefast(&request.arguments(Way::Directory, &[])).exits(32).says("already");
        scene.healed(before);
        assert_eq!(mountinfo::at(&scene.target).len(), 1);
    }
    command::run(&["umount", text(&scene.target)]);
    scene.host.assert_nothing_left();
}
