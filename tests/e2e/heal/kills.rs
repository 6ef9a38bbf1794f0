//! SIGKILL of the healing process between any two steps: each place has a working mount or the dead one, never the directory below, and
//! the next call finishes or cleans up.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use shorefast_engine::kill_point::Point;
use shorefast_tests::skip::skip;
use shorefast_tests::{Host, Root, command, wait};

use super::{OFTEN, scene_on, text, while_nobody_sees_below};

#[test]
fn a_healer_that_is_killed_at_any_step_never_uncovers_the_directory_below() {
    let binary = kill_points_binary();
    if !binary.exists() {
        return skip(&format!("{} is not built", binary.display()));
    }
    // A place can be between any of several steps.
    let places = (0..8).map(|times| format!("PlaceReplaced {times}"));
    let points: Vec<_> =
        Point::of_mount().iter().chain(Point::of_takeover()).map(|point| format!("{} 0", point.name())).chain(places).collect();
    for point in points.iter().filter(|point| !NOT_PASSED.contains(&point.split(' ').next().unwrap_or_default())) {
        let Some(host) = Host::with_binary(binary.clone(), Root::Private) else { return };
        let scene = scene_on(host, OFTEN);
        let bound = scene.host.directory("bound");
        command::run(&["mount", "--bind", text(&scene.target), text(&bound)]);
        let order = scene.host.run_directory().join("kill-at");
        while_nobody_sees_below(&scene.target, || {
            let before = scene.daemon();
            fs::write(&order, point).expect("the run directory is the test's own");
            before.signal(Signal::KILL);
            let keeper = scene.inspect()["keeper"].as_u64().expect("a keeper");
            wait::until("the healer to end", || (!std::path::Path::new(&format!("/proc/{keeper}")).exists()).then_some(()));
            let _ = fs::remove_file(&order);
            scene.host.shorefast(&["reconcile"]).succeeds();
            for place in [&scene.target, &bound] {
                let works = fs::read(place.join("file")).is_ok_and(|content| content == b"hello");
                let is_dead =
                    || fs::read_dir(place).is_err_and(|error| error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()));
                assert!(works || is_dead(), "{point}: {}: {:?}", place.display(), fs::read_dir(place).map(drop));
            }
        });
        command::run(&["umount", text(&bound)]);
        scene.host.shorefast(&["umount", text(&scene.target)]).succeeds();
        let _ = scene.host.shorefast(&["reconcile"]);
        scene.host.assert_nothing_left();
    }
}

/// By a mount in the place of another one.
const NOT_PASSED: [&str; 2] = ["TargetOpened", "Attached"];

fn kill_points_binary() -> PathBuf {
    let program = std::env::current_exe().expect("a program knows its own path");
    // target/PROFILE/deps/TEST-HASH
    program.ancestors().nth(3).expect("test programs are below the target directory").join("kill-points/debug/shorefast")
}
