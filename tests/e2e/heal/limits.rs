//! Bounded and honest: how often, how long, and what is said.

use std::fs;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Signal;
use shorefast_tests::path::text;
use shorefast_tests::{Client, Host, mountinfo, wait};

use super::{Request, Scene, scene, while_nobody_sees_below};

fn assert_dead(scene: &Scene) {
    // ECONNABORTED for whoever waited when the connection was let go.
    let is_dead = || fs::read_dir(&scene.target).is_err_and(|error| error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()));
    wait::until("the mount to be dead", || is_dead().then_some(()));
    assert_eq!(mountinfo::at(&scene.target).len(), 1);
}

#[test]
fn after_too_many_crashes_it_is_given_up_and_the_dead_mount_stays() {
    let Some(scene) = scene("heal = { crashes = 2 }") else { return };
    while_nobody_sees_below(&scene.target, || {
        scene.crash();
        scene.crash();
        scene.daemon().signal(Signal::KILL);
        wait::until("the end of all attempts", || (scene.state() == "failed").then_some(()));
        std::thread::sleep(Duration::from_millis(300));
    });
    assert_dead(&scene);
    let last = scene.inspect()["crashes"].as_array().and_then(|crashes| crashes.last().cloned()).expect("a crash");
    assert!(last["problem"].as_str().is_some_and(|problem| problem.contains("2 crashes")), "{last}");
    scene.host.shorefast(&["reconcile"]).succeeds();
    assert_dead(&scene);
    scene.end();
}

#[test]
fn a_mount_can_ask_for_another_end() {
    for (option, state) in [("shorefast-on-exit=keep", Some("dead")), ("shorefast-on-exit=detach", None)] {
        let Some(host) = Host::new() else { return };
        let client = Client::named("bindfs");
        let (source, target) = (host.directory("source"), host.directory("target"));
        let mut request = Request::new(&client, "bindfs", source, &target);
        request.options = option.into();
        request.sandboxed(&host).succeeds();
        let scene = Scene { host, target };
        scene.daemon().signal(Signal::KILL);
        match state {
            Some(state) => {
                wait::until("the mount to be dead", || (scene.state() == state).then_some(()));
                assert_dead(&scene);
                scene.host.shorefast(&["umount", text(&scene.target)]).succeeds();
            }
            None => wait::until("the mount to be gone", || scene.host.list().is_empty().then_some(())),
        }
        scene.host.assert_nothing_left();
    }
    let Some(host) = Host::new() else { return };
    let client = Client::named("bindfs");
    let mut request = Request::new(&client, "bindfs", host.directory("source"), host.directory("target"));
    for (options, words) in [("shorefast-on-exit=never", "heal, keep or detach"), ("shorefast-heal-deadline=soon", "30s")] {
        request.options = options.into();
        request.sandboxed(&host).exits(1).says(words);
    }
}

/// A bindfs that starts only if a file says so.
const MOODY: &str = "types = [\"bindfs\"]\nkernel_types = [\"fuse\"]\nsource = \"path\"\nnamespaces = { user = \"host\" }\nheal = { deadline = \"3s\" }\ncommand = [\"sh\", \"-c\", 'case $(cat \"$1/mood\") in well) exec bindfs \"$@\";; slow) sleep 1000;; *) echo I am ill >&2; exit 3;; esac', \"sh\", \"{source}\", \"{target}\"]\n";

fn moody() -> Option<Scene> {
    moody_with(MOODY, "")
}

fn moody_with(definition: &str, options: &str) -> Option<Scene> {
    let host = Host::new()?;
    let client = Client::defined(&host, "bindfs", definition);
    let (source, target) = (host.directory("source"), host.directory("target"));
    fs::write(target.join(super::BELOW), "").expect("the target can be written to");
    fs::write(source.join("mood"), "well").expect("the source can be written to");
    Request::new(&client, "bindfs", source, &target).options(options).sandboxed(&host).succeeds();
    Some(Scene { host, target })
}

/// Users get errors then, and a server that comes back brings the mount back.
#[test]
fn a_client_that_cannot_start_is_tried_again() {
    let Some(scene) = moody() else { return };
    let mood = scene.host.path("source/mood");
    fs::write(&mood, "ill").expect("the source can be written to");
    let before = scene.daemon();
    while_nobody_sees_below(&scene.target, || {
        before.signal(Signal::KILL);
        wait::until("users to get an error", || fs::read_dir(&scene.target).is_err().then_some(()));
    });
    assert_dead(&scene);
    assert_eq!(scene.state(), "healing");
    let first = scene.inspect()["crashes"][0].clone();
    assert!(first["problem"].as_str().is_some_and(|problem| problem.contains("I am ill")), "{first}");
    fs::write(&mood, "well").expect("the source can be written to");
    scene.healed(before);
    assert_eq!(fs::read(scene.target.join("mood")).expect("it is served again"), b"well");
    scene.end();
}

#[test]
fn nobody_waits_longer_than_the_deadline() {
    // The mount's own word counts more than the definition's.
    let patient = MOODY.replace("3s", "10m");
    for (definition, options) in [(MOODY, ""), (patient.as_str(), "shorefast-heal-deadline=3s")] {
        let Some(scene) = moody_with(definition, options) else { return };
        fs::write(scene.host.path("source/mood"), "slow").expect("the source can be written to");
        scene.daemon().signal(Signal::KILL);
        let begun = Instant::now();
        let error = fs::read_dir(&scene.target).expect_err("nobody serves it");
        assert!(begun.elapsed() > Duration::from_secs(1), "it waits for the new client: {error}");
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        scene.end();
    }
}

#[test]
fn what_is_unmounted_while_it_heals_is_gone() {
    let Some(scene) = moody() else { return };
    fs::write(scene.host.path("source/mood"), "slow").expect("the source can be written to");
    scene.daemon().signal(Signal::KILL);
    wait::until("a new client to be started", || (scene.state() == "healing").then_some(()));
    scene.end();
}
