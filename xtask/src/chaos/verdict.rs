//! When a round is over: whatever is left is unmounted, and then nothing may be left. The kernel is asked, not Shorefast.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use shorefast_tests::resources::Resources;
use shorefast_tests::{Host, mountinfo, processes};

use crate::chaos::scene::Scene;
use crate::chaos::storm::{COVERED, GARBAGE};
use crate::chaos::story::{clear, program};

const AGAIN: Duration = Duration::from_secs(2);

/// `is_shaken`: records were lost on purpose, so Shorefast may not know a mount any more.
pub(crate) fn check(host: &Host, scene: &Scene, targets: &[PathBuf], is_shaken: bool) {
    processes::on_this_network().iter().for_each(|process| process.signal(Signal::CONT));
    check_foreign(scene);
    let _ = fs::remove_file(scene.run.join(GARBAGE));
    let answer = scene.call(&["reconcile"]);
    scene.check_manners(&answer);
    if !answer.is_good() {
        scene.finding(format!("the storm is over, but {answer}"));
    }
    for target in targets.iter().map(PathBuf::as_path).chain([Path::new(COVERED)]) {
        end_all(scene, target, is_shaken);
    }
    program(&["umount", FOREIGN]);
    let answer = scene.call(&["reconcile"]);
    if !answer.is_good() {
        scene.finding(format!("nothing is mounted, but {answer}"));
    }
    if is_shaken {
        forget_meddling(&scene.run);
    }
    scene.check_manners(&scene.call(&["list"]));
    // A file that no record names is removed once it is old enough, by the next process that reconciles.
    let mut last = Instant::now();
    let again = || {
        if is_shaken && last.elapsed() > AGAIN {
            scene.check_manners(&scene.call(&["reconcile"]));
            last = Instant::now();
        }
    };
    if let Some(left) = host.what_is_left_after(again) {
        scene.finding(format!("left behind:\n{left}"));
    }
    let used = Resources::now();
    if used.inotify_instances > 0 {
        scene.finding(format!("{used:?}"));
    }
}

/// Another program's mount, below those that are mounted on it: it keeps its data, no matter what is unmounted around it.
pub(crate) const FOREIGN: &str = COVERED;
const THEIRS: &str = "theirs";

pub(crate) fn put_foreign(scene: &Scene) {
    fs::create_dir_all(FOREIGN).expect("a target of our own");
    let answer = program(&["mount", "-t", "tmpfs", "foreign", FOREIGN]);
    if !answer.is_good() || fs::write(Path::new(FOREIGN).join(THEIRS), "data").is_err() {
        scene.finding(format!("cannot set the scene: {answer}"));
    }
}

fn check_foreign(scene: &Scene) {
    if !mountinfo::at(FOREIGN).iter().any(|mount| mount.source == "foreign") {
        scene.finding("another program's mount, at a target where only Shorefast was asked to unmount, is gone".to_owned());
    }
}

fn end_all(scene: &Scene, target: &Path, is_shaken: bool) {
    const MOST: usize = 50;
    let path = target.to_string_lossy();
    for _ in 0..MOST {
        let Some(top) = mountinfo::at(target).pop() else { return };
        if top.source == "foreign" {
            let data = fs::read(target.join(THEIRS));
            if !data.as_ref().is_ok_and(|data| data == b"data") {
                scene.finding(format!("another program's data is gone: {data:?}"));
            }
            program(&["umount", &path]);
            continue;
        }
        let answer = scene.call(&["umount", "--force", &path]);
        scene.check_manners(&answer);
        if !answer.is_good() {
            if !is_shaken {
                scene.finding(format!("a mount of ours that cannot be ended: {answer} {top:?}"));
            }
            program(&["umount", "--lazy", &path]);
        }
    }
    if !mountinfo::at(target).is_empty() {
        scene.finding(format!("{path} cannot be freed: {:?}", mountinfo::at(target)));
        clear(target);
    }
}

/// What was emptied or overwritten by the storm itself may be set aside for an administrator to look at.
fn forget_meddling(run: &Path) {
    let _ = fs::remove_dir_all(run.join("unreadable"));
    for entry in fs::read_dir(run).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_broken = fs::read(&path).is_ok_and(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).is_err());
        if path.is_file() && is_broken {
            let _ = fs::remove_file(path);
        }
    }
}
