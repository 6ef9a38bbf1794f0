//! All callers at the same targets at once, while processes are killed and stopped and the run directory is meddled with. No answer can be
//! checked here but that there is one; what must hold is checked when the storm is over.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use shorefast_tests::processes::{self, Process};

use crate::chaos::call;
use crate::chaos::random::Random;
use crate::chaos::scene::{BAD, FRONTS, GOOD, Scene};
use crate::chaos::story::program;

/// Disturbances besides the callers themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// Any process of ours or of a client is killed, or stopped for a moment.
    Signals,
    /// Records are removed, emptied and overwritten; what no record is appears among them.
    Records,
    /// There is hardly any room in the run directory.
    NoRoom,
}

pub(crate) const TROUBLES: &[Trouble] = &[Trouble::None, Trouble::Signals, Trouble::Signals, Trouble::Records, Trouble::NoRoom];

const SHARED_TARGETS: u64 = 3;
const ACTS: u64 = 12;

pub(crate) fn targets() -> Vec<PathBuf> {
    (0..SHARED_TARGETS).map(|number| PathBuf::from(format!("/srv/shared/{number}"))).collect()
}

/// A target on which another program has mounted as well: only Shorefast may `umount` there.
pub(crate) const COVERED: &str = "/srv/covered";

/// One caller among several.
pub(crate) fn call_around(scene: &Scene, random: &mut Random) {
    let targets = targets();
    for _ in 0..ACTS {
        let target = random.one_of(&targets).clone();
        let path = target.to_string_lossy();
        let command = match random.below(12) {
            0 | 1 => scene.mount(*random.one_of(GOOD), *random.one_of(FRONTS), &target),
            2 | 3 => scene.mount_over(*random.one_of(GOOD), &target),
            4 => scene.mount(*random.one_of(BAD), *random.one_of(FRONTS), &target),
            5 => {
                program(&["umount", &path]);
                continue;
            }
            6 => scene.shorefast(&["umount", &path]),
            7 => scene.shorefast(&["umount", "--lazy", &path]),
            8 => scene.shorefast(&["umount", "--force", &path]),
            9 => scene.shorefast(random.one_of::<&[&str]>(&[&["list"], &["list", "--json"], &["reconcile"]])),
            10 => scene.shorefast(&["umount", *random.one_of(&["--force", "--lazy"]), COVERED]),
            _ => scene.mount_over(*random.one_of(GOOD), Path::new(COVERED)),
        };
        scene.check_manners(&call::run(command));
    }
}

/// Until it is over.
pub(crate) fn disturb(scene: &Scene, random: &mut Random, trouble: Trouble, is_over: &AtomicBool) {
    let ours = std::process::id();
    while !is_over.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_micros(500 + random.below(20_000)));
        match trouble {
            Trouble::None | Trouble::NoRoom => {}
            Trouble::Signals => {
                let members: Vec<Process> =
                    processes::on_this_network().into_iter().filter(|process| process.pid != ours && is_of_the_mounts(process)).collect();
                if members.is_empty() {
                    continue;
                }
                let victim = random.one_of(&members);
                if random.below(3) == 0 {
                    victim.signal(Signal::STOP);
                    std::thread::sleep(Duration::from_millis(random.below(80)));
                    victim.signal(Signal::CONT);
                } else {
                    victim.signal(Signal::KILL);
                }
            }
            Trouble::Records => meddle(scene, random),
        }
    }
}

fn is_of_the_mounts(process: &Process) -> bool {
    let name = process.status("Name").unwrap_or_default();
    process.is_sandboxed() || ["shorefast", "mount.chaos", "mounter", "bindfs"].iter().any(|ours| name.starts_with(ours))
}

/// So that the end of a round can recognise mounts that no caller made.
pub(crate) const GARBAGE: &str = "m7fff.json";

fn meddle(scene: &Scene, random: &mut Random) {
    let records: Vec<PathBuf> =
        fs::read_dir(&scene.run).into_iter().flatten().flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    match random.below(8) {
        0 => {
            let _ = fs::write(scene.run.join(GARBAGE), "{\"id\": 7");
        }
        1 if !records.is_empty() => {
            let _ = fs::write(random.one_of(&records), "");
        }
        2 if !records.is_empty() => {
            let _ = fs::remove_file(random.one_of(&records));
        }
        3 if random.below(10) == 0 => {
            let _ = fs::remove_dir_all(&scene.run);
        }
        _ => {}
    }
}
