//! SIGKILL of the upgrading process between any two steps: each place has a working mount, of the old client or the new one, and the next
//! call finishes what was begun, or cleans it up.

use std::fs;
use std::path::PathBuf;

use shorefast_engine::kill_point::Point;
use shorefast_tests::path::text;
use shorefast_tests::skip::skip;
use shorefast_tests::{Host, Root, command, wait};

use super::{BELOW, Keeping, scene_on};

#[test]
fn an_upgrade_that_is_killed_at_any_step_leaves_a_mount_that_works() {
    let binary = kill_points_binary();
    if !binary.exists() {
        return skip(&format!("{} is not built", binary.display()));
    }
    // A place can be between any of several steps.
    let places = (0..8).map(|times| format!("PlaceReplaced {times}"));
    let points = Point::of_mount().iter().chain(Point::of_takeover()).chain(Point::of_upgrade());
    let points: Vec<_> = points.filter(|point| !NOT_PASSED.contains(&point.name())).map(|point| format!("{} 0", point.name())).collect();
    for point in points.into_iter().chain(places) {
        eprintln!("{point}");
        let Some(host) = Host::with_binary(binary.clone(), Root::Private) else { return };
        let scene = scene_on(host, "");
        let bound = scene.host.directory("bound");
        command::run(&["mount", "--bind", text(&scene.target), text(&bound)]);
        let keeping = Keeping::start(&scene.target);
        let order = scene.host.run_directory().join("kill-at");
        scene.redefine(1);
        fs::write(&order, &point).expect("the run directory is the test's own");
        let said = scene.upgrade().stderr;
        assert!(said.contains("ended without an answer"), "{point} is not passed: {said}");
        fs::remove_file(&order).expect("the run directory is the test's own");
        let assert_served = |when: &str| {
            for place in [&scene.target, &bound] {
                let found = fs::read(place.join("file"));
                assert!(found.as_ref().is_ok_and(|content| content == b"hello"), "{point}, {when}: {}: {found:?}", place.display());
                assert!(!place.join(BELOW).exists(), "{point}, {when}: {}", place.display());
            }
        };
        assert_served("after the kill");
        scene.host.shorefast(&["reconcile"]).succeeds();
        assert_served("after the next call");
        keeping.finish_unharmed();
        // Whichever serves, there is one, and it can be upgraded.
        wait::until("a single client", || (scene.host.list().len() == 1).then_some(()));
        scene.redefine(2);
        scene.upgraded();
        scene.all_old_clients_end();
        assert_served("after the next upgrade");
        let devices: std::collections::BTreeSet<_> = [&scene.target, &bound]
            .iter()
            .map(|place| std::os::unix::fs::MetadataExt::dev(&fs::metadata(place).expect("it is served")))
            .collect();
        assert_eq!(devices.len(), 1, "{point}: all places have the same client");
        command::run(&["umount", text(&bound)]);
        scene.end();
    }
}

/// By an upgrade.
const NOT_PASSED: [&str; 4] = ["TargetOpened", "Attached", "Answered", "PredecessorRemoved"];

fn kill_points_binary() -> PathBuf {
    let program = std::env::current_exe().expect("a program knows its own path");
    // target/PROFILE/deps/TEST-HASH
    program.ancestors().nth(3).expect("test programs are below the target directory").join("kill-points/debug/shorefast")
}
