//! One mount from its beginning to its end, at a target that no other process uses: every answer can be checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use shorefast_tests::mountinfo;
use shorefast_tests::processes::Process;

use crate::chaos::call::{self, Answer, Called};
use crate::chaos::random::Random;
use crate::chaos::scene::{BAD, CONTENT, FRONTS, Front, GOOD, Kind, OnExit, Scene};

/// What happens to a mount in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    PlainUmount,
    Umount(&'static [&'static str]),
    Kill(Member),
    /// The keeper dies, then a plain umount.
    KillKeeper,
    /// The client is stopped, then forced.
    Stop,
    /// Another program mounts something else on top.
    Covered,
    /// A second place for it.
    Bound,
    /// A second of ours on top.
    Stacked,
    /// A directory above is renamed.
    Moved,
    /// The client dies, and the target is mounted again at once.
    Remounted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Member {
    Daemon,
    Init,
}

const ENDS: &[End] = &[
    End::PlainUmount,
    End::Umount(&["umount"]),
    End::Umount(&["umount", "--lazy"]),
    End::Umount(&["umount", "--force"]),
    End::Kill(Member::Daemon),
    End::Kill(Member::Init),
    End::KillKeeper,
    End::Stop,
    End::Covered,
    End::Bound,
    End::Stacked,
    End::Moved,
    End::Remounted,
];

/// What is cleaned up beside an answer may take a moment, on a busy machine many.
const SETTLES_WITHIN: Duration = Duration::from_secs(20);

pub(crate) fn tell(scene: &Scene, random: &mut Random, target: &Path) {
    fs::create_dir_all(target).expect("a target of our own");
    let told = match random.below(10) {
        0..=5 => lived(scene, random, target),
        6 => refused(scene, random, target),
        7 => private(scene, random, target),
        _ => interrupted(scene, random, target),
    };
    if let Err(problem) = told {
        scene.finding(format!("{}: {problem}", target.display()));
        clear(target);
    }
}

/// A mount that must work, and its end.
fn lived(scene: &Scene, random: &mut Random, target: &Path) -> Result<(), String> {
    let (kind, front, end) = (*random.one_of(GOOD), *random.one_of(FRONTS), *random.one_of(ENDS));
    let story = |problem: String| format!("{kind:?} by {front:?}, {end:?}: {problem}");
    mounted(scene, kind, front, target).and_then(|()| ended(scene, random, kind, target, end)).map_err(story)
}

fn mounted(scene: &Scene, kind: Kind, front: Front, target: &Path) -> Result<(), String> {
    let answer = call::run(scene.mount(kind, front, target));
    scene.check_manners(&answer);
    good(&answer)?;
    serves(kind, target)?;
    match scene.listed(target)?.as_slice() {
        [state] if state == "serving" => Ok(()),
        states => Err(format!("mounted, but list says {states:?}")),
    }
}

fn serves(kind: Kind, target: &Path) -> Result<(), String> {
    if mountinfo::at(target).is_empty() {
        return Err("said to be mounted, but is not".to_owned());
    }
    let wrong = |error: std::io::Error| format!("said to be mounted, but cannot be read: {error}");
    if kind.shows_source() {
        let content = fs::read(target.join("file")).map_err(wrong)?;
        if content == CONTENT { Ok(()) } else { Err(format!("wrong content {content:?}")) }
    } else {
        fs::read_dir(target).map(drop).map_err(wrong)
    }
}

fn ended(scene: &Scene, random: &mut Random, kind: Kind, target: &Path, end: End) -> Result<(), String> {
    let path = target.to_string_lossy();
    let checked = |words: &[&str]| {
        let answer = unless_busy(|| scene.call(&[words, &[&*path]].concat()));
        scene.check_manners(&answer);
        good(&answer)
    };
    match (end, members(scene, target)) {
        (End::Kill(member), Some(members)) => {
            match member {
                Member::Daemon => members.daemon.signal(Signal::KILL),
                Member::Init => members.init.signal(Signal::KILL),
            }
            match kind.on_exit() {
                Some(OnExit::Heal) => {
                    healed(scene, kind, target)?;
                    checked(&["umount"])?;
                }
                Some(OnExit::Keep) => {
                    states(scene, target, "a dead mount stays", &["dead"])?;
                    dead(target)?;
                    checked(&["umount"])?;
                }
                // It goes by itself.
                Some(OnExit::Detach) | None => {}
            }
        }
        (End::KillKeeper, Some(members)) => {
            members.keeper.signal(Signal::KILL);
            plain_umount(target)?;
            settles("the client of a mount without a keeper ends", || !is_there(members.daemon))?;
            // Only the next call is left to remove the record.
            good(&scene.call(&["reconcile"]))?;
        }
        (End::Stop, Some(members)) => {
            members.daemon.signal(Signal::STOP);
            checked(&["umount", "--force"])?;
            // The kernel may be at work on its remains.
            std::thread::sleep(Duration::from_secs(2));
            if is_there(members.daemon) {
                return Err("umount --force said that it is gone, but the client lives on".to_owned());
            }
        }
        (End::Remounted, Some(members)) => {
            members.daemon.signal(Signal::KILL);
            std::thread::sleep(Duration::from_micros(random.below(8000)));
            let answer = call::run(scene.mount(kind, Front::Cli, target));
            scene.check_manners(&answer);
            if kind.on_exit() == Some(OnExit::Heal) {
                // It counts as served all the time. That it is made anew is no lie either, where the client was not to be had.
                if !answer.is_good() && !answer.words.contains("already") {
                    return Err(answer.to_string());
                }
                healed(scene, kind, target)?;
            } else {
                good(&answer)?;
                serves(kind, target)?;
            }
            checked(&["umount"])?;
        }
        (End::Umount(words), _) => checked(words)?,
        (End::Covered, _) => covered(scene, random, target)?,
        (End::Bound, _) => bound(kind, target)?,
        (End::Stacked, _) => {
            let answer = call::run(scene.mount(kind, Front::Cli, target));
            scene.check_manners(&answer);
            if good(&answer).is_ok() || mountinfo::at(target).len() != 1 {
                return Err(format!("the same mount was stacked without being told to: {answer}"));
            }
            let answer = call::run(scene.mount_over(kind, target));
            scene.check_manners(&answer);
            good(&answer)?;
            checked(&["umount"])?;
            serves(kind, target)?;
            checked(&["umount"])?;
        }
        (End::Moved, _) => return moved(scene, target),
        _ => plain_umount(target)?,
    }
    gone(scene, target)
}

/// Another program's mount on top of ours is never touched, whatever we are asked to do to ours.
fn covered(scene: &Scene, random: &mut Random, target: &Path) -> Result<(), String> {
    let path = target.to_string_lossy();
    good(&program(&["mount", "-t", "tmpfs", "foreign", &path]))?;
    fs::write(target.join("theirs"), "data").map_err(|error| error.to_string())?;
    let words = *random.one_of(&[&["umount"][..], &["umount", "--lazy"], &["umount", "--force"]]);
    let answer = scene.call(&[words, &[&*path]].concat());
    scene.check_manners(&answer);
    let there = mountinfo::at(target);
    if !there.iter().any(|mount| mount.source == "foreign") || fs::read(target.join("theirs")).is_ok_and(|data| data != b"data") {
        return Err(format!("another program's mount on top of ours was unmounted: {answer}"));
    }
    if answer.is_good() && words.len() == 1 && there.len() > 1 {
        return Err(format!("said to be unmounted below another, but is not: {answer}"));
    }
    good(&program(&["umount", &path]))?;
    let answer = scene.call(&["umount", "--force", &path]);
    // Its client may be dead since the call above: then its keeper, or another caller's reconcile, takes it away, and may have been faster.
    if mountinfo::at(target).is_empty() { Ok(()) } else { good(&answer) }
}

fn bound(kind: Kind, target: &Path) -> Result<(), String> {
    let second = PathBuf::from(format!("{}-second", target.display()));
    fs::create_dir_all(&second).map_err(|error| error.to_string())?;
    good(&program(&["mount", "--bind", &target.to_string_lossy(), &second.to_string_lossy()]))?;
    plain_umount(target)?;
    let served = serves(kind, &second);
    plain_umount(&second)?;
    served
}

fn moved(scene: &Scene, target: &Path) -> Result<(), String> {
    let parent = target.parent().ok_or("no parent")?;
    let elsewhere = PathBuf::from(format!("{}-moved", parent.display()));
    fs::rename(parent, &elsewhere).map_err(|error| error.to_string())?;
    let there = elsewhere.join(target.file_name().ok_or("no name")?);
    let answer = unless_busy(|| scene.call(&["umount", &there.to_string_lossy()]));
    scene.check_manners(&answer);
    let result = good(&answer).and_then(|()| gone(scene, &there));
    clear(&there);
    fs::rename(&elsewhere, parent).map_err(|error| error.to_string())?;
    result
}

/// A client that must fail, by its deadline at the latest, and leaves nothing.
fn refused(scene: &Scene, random: &mut Random, target: &Path) -> Result<(), String> {
    let kind = *random.one_of(BAD);
    let answer = call::run(scene.mount(kind, Front::Cli, target));
    scene.check_manners(&answer);
    if answer.code != Some(32) {
        return Err(format!("{kind:?} should have failed: {answer}"));
    }
    gone(scene, target).map_err(|problem| format!("after the failure of {kind:?}: {problem}"))
}

/// In a mount namespace that ends: nothing is left of it.
fn private(scene: &Scene, random: &mut Random, target: &Path) -> Result<(), String> {
    // Not with control groups: when the namespace is gone, its keeper works in the host's, where those of a round have other names.
    let kind = Some(*random.one_of(GOOD)).filter(|kind| *kind != Kind::BindLimited).unwrap_or(Kind::Bind);
    let mount = scene.mount(kind, Front::Cli, target);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--"]).arg(mount.get_program()).args(mount.get_args());
    let answer = call::run(command);
    scene.check_manners(&answer);
    good(&answer)?;
    if mountinfo::at(target).is_empty() { Ok(()) } else { Err(format!("{kind:?} in a private namespace is seen here")) }
}

/// `mount` is ended at a random moment: a working mount or none.
fn interrupted(scene: &Scene, random: &mut Random, target: &Path) -> Result<(), String> {
    let kind = if random.below(3) == 0 { *random.one_of(BAD) } else { *random.one_of(GOOD) };
    let signal = *random.one_of(&[Signal::KILL, Signal::KILL, Signal::TERM, Signal::INT]);
    let front = *random.one_of(FRONTS);
    let called = Called::start(scene.mount(kind, front, target)).map_err(|error| error.to_string())?;
    std::thread::sleep(Duration::from_micros(random.below(60_000)));
    let ended = Instant::now();
    called.signal(signal);
    let answer = called.finish_with_helpers().map_err(|error| error.to_string())?;
    scene.check_manners(&answer);
    let story = |problem: String| format!("{kind:?} by {front:?}, {signal:?}: {problem}");
    if ended.elapsed() > SETTLES_WITHIN {
        return Err(story(format!("ended only after {:?}", ended.elapsed())));
    }
    settles("a working mount or none", || mountinfo::at(target).is_empty() || serves(kind, target).is_ok()).map_err(story)?;
    let free = || {
        clear(target);
        let calls = scene.call(&["reconcile"]);
        calls.is_good() && mountinfo::at(target).is_empty() && scene.listed(target).is_ok_and(|states| states.is_empty())
    };
    settles("nothing is left of an interrupted mount", free).map_err(story)
}

/// A mount whose client dies gets another client after a while, at the same place, and the directory below is never visible.
fn healed(scene: &Scene, kind: Kind, target: &Path) -> Result<(), String> {
    let started = Instant::now();
    let mut failures = 0;
    loop {
        let answered = serves(kind, target);
        // What the dead client had read and not answered fails.
        let is_excused = failures == 0 && answered.as_ref().is_err_and(|problem| problem.contains("os error 5)"));
        match answered {
            Err(_) if is_excused => failures += 1,
            Err(problem) => return Err(format!("{:?} after its client was killed: {problem}", started.elapsed())),
            Ok(()) => break,
        }
    }
    states(scene, target, "another client serves", &["serving"])?;
    serves(kind, target)
}

fn dead(target: &Path) -> Result<(), String> {
    match fs::read_dir(target) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()) => Ok(()),
        other => Err(format!("a mount that is dead says {:?}", other.map(drop))),
    }
}

fn states(scene: &Scene, target: &Path, what: &str, expected: &[&str]) -> Result<(), String> {
    settles(what, || scene.listed(target).is_ok_and(|states| states == expected))
        .map_err(|problem| format!("{problem}: {:?}, {:?}", scene.listed(target), mountinfo::at(target)))
}

struct Members {
    init: Process,
    keeper: Process,
    daemon: Process,
}

/// `None`: the kernel serves it.
fn members(scene: &Scene, target: &Path) -> Option<Members> {
    let answer = scene.call(&["inspect", "--json", &target.to_string_lossy()]);
    let told: serde_json::Value = serde_json::from_str(&answer.words).ok()?;
    let process = |name: &str| Some(Process { pid: u32::try_from(told[name].as_u64()?).ok()? });
    Some(Members { init: process("init")?, keeper: process("keeper")?, daemon: process("pid")? })
}

fn is_there(process: Process) -> bool {
    process.status("State").is_some_and(|state| !state.starts_with('Z'))
}

fn gone(scene: &Scene, target: &Path) -> Result<(), String> {
    settles("nothing is left at the target", || mountinfo::at(target).is_empty())?;
    settles("list does not show it", || scene.listed(target).is_ok_and(|states| states.is_empty()))
        .map_err(|problem| format!("{problem}: {:?}", scene.listed(target)))
}

fn settles(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let started = Instant::now();
    while !is_so() {
        if started.elapsed() > SETTLES_WITHIN {
            return Err(format!("not within {SETTLES_WITHIN:?}: {what}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// A file that this process has just read through the mount may be open for another moment, in what another thread is starting: descriptors
/// are copied by fork, and closed by execve.
fn unless_busy(call: impl Fn() -> Answer) -> Answer {
    const OPEN_IN_A_CHILD: Duration = Duration::from_secs(1);
    let deadline = Instant::now() + OPEN_IN_A_CHILD;
    loop {
        let answer = call();
        let is_busy = ["target is busy", "Device or resource busy"].iter().any(|words| answer.words.contains(words));
        if answer.is_good() || !is_busy || Instant::now() >= deadline {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn plain_umount(target: &Path) -> Result<(), String> {
    good(&unless_busy(|| program(&["umount", &target.to_string_lossy()])))
}

/// Whatever is there; for what comes next.
pub(crate) fn clear(target: &Path) {
    for _ in 0..mountinfo::at(target).len() {
        program(&["umount", "--lazy", &target.to_string_lossy()]);
    }
}

pub(crate) fn program(words: &[&str]) -> Answer {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    call::run(command)
}

fn good(answer: &Answer) -> Result<(), String> {
    if answer.is_good() { Ok(()) } else { Err(answer.to_string()) }
}
