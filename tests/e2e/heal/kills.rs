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
    let Some(binary) = kill_points_binary() else { return };
    for point in points() {
        killed_at(&binary, &point);
    }
}

/// As often as SOAK_HEALER_KILLS says: `cargo xtask soak --healer-kills N`.
#[test]
#[ignore = "takes minutes: cargo xtask soak --healer-kills N"]
fn soak_healer_kills() {
    let Some(binary) = kill_points_binary() else { return };
    let kills = std::env::var("SOAK_HEALER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let mut left = (0, 0);
    for (number, point) in points().iter().cycle().take(kills).enumerate() {
        match killed_at(&binary, point) {
            After::Works => left.0 += 1,
            After::Dead => left.1 += 1,
        }
        if (number + 1) % 50 == 0 || number + 1 == kills {
            println!(
                "{} kills of the healer at {} points: {} mounts served then, {} were dead; 0 directories below were seen",
                number + 1,
                points().len(),
                left.0,
                left.1
            );
        }
    }
}

/// Of the mount, after whoever came next.
enum After {
    Works,
    Dead,
}

fn points() -> Vec<String> {
    // A place can be between any of several steps.
    let places = (0..8).map(|times| format!("PlaceReplaced {times}"));
    let points = Point::of_mount().iter().chain(Point::of_takeover()).map(|point| format!("{} 0", point.name())).chain(places);
    points.filter(|point| !NOT_PASSED.contains(&point.split(' ').next().unwrap_or_default())).collect()
}

fn killed_at(binary: &std::path::Path, point: &str) -> After {
    let host = Host::with_binary(binary.to_owned(), Root::Private).expect("there was one before");
    let mut after = After::Works;
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
            if !works {
                after = After::Dead;
            }
        }
    });
    command::run(&["umount", text(&bound)]);
    scene.host.shorefast(&["umount", text(&scene.target)]).succeeds();
    let _ = scene.host.shorefast(&["reconcile"]);
    scene.host.assert_nothing_left();
    after
}

/// By a mount in the place of another one.
const NOT_PASSED: [&str; 2] = ["TargetOpened", "Attached"];

fn kill_points_binary() -> Option<PathBuf> {
    let program = std::env::current_exe().expect("a program knows its own path");
    // target/PROFILE/deps/TEST-HASH
    let binary = program.ancestors().nth(3).expect("test programs are below the target directory").join("kill-points/debug/shorefast");
    if !binary.exists() {
        skip(&format!("{} is not built", binary.display()));
        return None;
    }
    Host::with_binary(binary.clone(), Root::Private).map(|_| binary)
}
