//! A client that lives and answers nothing.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use shorefast_tests::wait;

use super::{OFTEN, scene};

/// Somebody who works by path.
fn reader(path: &Path) -> Child {
    Command::new("cat").arg(path).stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("cat is installed")
}

fn ends_well(mut reader: Child) {
    let end = Instant::now() + Duration::from_secs(60);
    let status = shorefast_sys::deadline::exit_or_kill(&mut reader, end).expect("a child of ours");
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}

#[test]
fn a_client_that_answers_nothing_is_shown_as_hung_while_somebody_waits() {
    let Some(scene) = scene(OFTEN) else { return };
    scene.daemon().signal(Signal::STOP);
    let asked = Instant::now();
    assert_eq!(scene.state(), "serving", "nobody waits for it");
    assert!(asked.elapsed() < Duration::from_secs(1), "nobody is waited for: {:?}", asked.elapsed());
    let reader = reader(&scene.target.join("file"));
    wait::until("the mount to hang", || (scene.state() == "hung").then_some(()));
    assert_eq!(scene.inspect()["state"], "hung");
    scene.daemon().signal(Signal::CONT);
    ends_well(reader);
    assert_eq!(scene.state(), "serving");
    assert_eq!(scene.inspect()["crashes"], serde_json::json!([]), "nobody asked for it to be killed");
    scene.end();
}

/// Requests wait there at any moment.
#[test]
fn a_busy_client_is_not_hung() {
    let Some(scene) = scene(OFTEN) else { return };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (stop, path) = (&stop, scene.target.join(format!("missing-{number}")));
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    drop(fs::metadata(&path));
                }
            });
        }
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            assert_eq!(scene.state(), "serving");
        }
        stop.store(true, Ordering::Relaxed);
    });
    scene.end();
}
