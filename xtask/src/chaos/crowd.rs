//! Thousands of mounts that the kernel serves: what the machine has only so much of is counted before and after.

use std::fs;
use std::path::PathBuf;

use shorefast_tests::resources::Resources;
use shorefast_tests::{Host, mountinfo};

use crate::chaos::call;
use crate::chaos::scene::{Front, Kind, Scene};

/// Of each resource: others are at work on this machine as well.
const HANDFUL: usize = 64;

pub(crate) fn gather(host: &Host, scene: &Scene, mounts: usize) {
    let before = (Resources::now(), open_files());
    let targets: Vec<PathBuf> = (0..mounts).map(|number| host.directory(format!("crowd/{number}"))).collect();
    for target in &targets {
        let answer = call::run(scene.mount(Kind::Memory, Front::Cli, target));
        if !answer.is_good() {
            return scene.finding(format!("mount {} of {mounts}: {answer}", target.display()));
        }
    }
    let after = (Resources::now(), open_files());
    println!("{mounts} mounts: {before:?} before, {after:?} with them");
    let (was, is) = (before.0, after.0);
    let pairs = [
        ("processes", was.processes, is.processes),
        ("descriptors", was.open_files, is.open_files),
        ("inotify instances", was.inotify_instances, is.inotify_instances),
        ("inotify watches", was.inotify_watches, is.inotify_watches),
        ("user namespaces", was.user_namespaces, is.user_namespaces),
        ("mount namespaces", was.mount_namespaces, is.mount_namespaces),
        ("keys", was.keys, is.keys),
        ("open files of the machine", before.1, after.1),
    ];
    for (name, was, is) in pairs {
        let allowed = if name == "open files of the machine" { HANDFUL * 16 } else { HANDFUL };
        if is > was + allowed {
            scene.finding(format!("{name}: {was} before {mounts} mounts, {is} with them"));
        }
    }
    if scene.listed(&targets[0]).map(|states| states.len()) != Ok(1) {
        scene.finding("one of many is not listed".to_owned());
    }
    for target in &targets {
        let answer = scene.call(&["umount", &target.to_string_lossy()]);
        if !answer.is_good() || !mountinfo::at(target).is_empty() {
            return scene.finding(answer.to_string());
        }
    }
}

/// What counts towards fs.file-max, also of others.
fn open_files() -> usize {
    let numbers = fs::read_to_string("/proc/sys/fs/file-nr").unwrap_or_default();
    numbers.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}
