//! Arguments that change while the broker looks at them, and callers that vanish.
//!
//! What a race got mounted is judged by the sandbox's own mount table here and by the host's in the driver.

use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::fuse;
use crate::outcome::{Outcome, refused, succeeded};
use crate::sandbox::{SCRATCH, Sandbox, c_path, mount, mount_words, scratch_dir, umount};
use crate::sys::{self, Answer, Errno, Pages, at};

const CALLS: usize = 20_000;
const TIME: Duration = Duration::from_secs(4);

/// Calls `attempt` over and over while `disturb` runs in another thread, until time or calls run out.
fn race(sandbox: &Sandbox, disturb: impl Fn(usize) + Sync, mut attempt: impl FnMut() -> Answer) -> Outcome {
    let over = AtomicBool::new(false);
    let mut calls = 0;
    let mut accepted = 0;
    let mut last = Errno(0);
    let mut stray = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                disturb(turn);
            }
        });
        let started = Instant::now();
        while calls < CALLS && started.elapsed() < TIME && stray.is_empty() {
            calls += 1;
            match attempt() {
                Err(errno) => last = errno,
                Ok(_) => {
                    accepted += 1;
                    stray = sandbox.forbidden_mounts();
                    // If the broker lets us, the race goes on with a free target.
                    let _ = umount(&sandbox.target, libc::MNT_DETACH);
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    stray.extend(sandbox.forbidden_mounts());
    match stray.as_slice() {
        [] => refused(format!("{calls} calls, {accepted} mounted what is allowed where it is allowed, the last error {last}")),
        stray => succeeded(format!("after {calls} calls: {}", stray.join(", "))),
    }
}

/// Eight bytes that change in one step.
fn word(text: &[u8; 8]) -> u64 {
    u64::from_ne_bytes(*text)
}

/// The type flips between one that is allowed and one that is not; the moments of the allowed one are short.
pub(super) fn flips_type(sandbox: &Sandbox) -> Outcome {
    let fstype = AtomicU64::new(word(b"proc\0\0\0\0"));
    let flip = |turn: usize| {
        fstype.store(word(b"tmpfs\0\0\0"), Ordering::Relaxed);
        if turn.is_multiple_of(2) {
            std::hint::spin_loop();
        }
        for other in [b"proc\0\0\0\0", b"sysfs\0\0\0", b"ramfs\0\0\0", b"mqueue\0\0"] {
            fstype.store(word(other), Ordering::Relaxed);
            std::hint::spin_loop();
        }
    };
    race(sandbox, flip, || mount_words([at(c"hostile"), at(&*sandbox.target), at(&fstype), 0, 0]))
}

/// The same where no combination is allowed, so that every call counts.
pub(super) fn flips_type_elsewhere(sandbox: &Sandbox) -> Outcome {
    let fstype = AtomicU64::new(word(b"tmpfs\0\0\0"));
    let flip = |turn: usize| fstype.store(word(if turn.is_multiple_of(2) { b"tmpfs\0\0\0" } else { b"proc\0\0\0\0" }), Ordering::Relaxed);
    race(sandbox, flip, || mount_words([at(c"hostile"), at(c"/usr"), at(&fstype), 0, 0]))
}

fn bytes(text: &CStr, length: usize) -> Vec<AtomicU8> {
    let padded = text.to_bytes().iter().copied().chain(std::iter::repeat(0)).take(length);
    padded.map(AtomicU8::new).collect()
}

fn overwrite(memory: &[AtomicU8], text: &CStr) {
    for (byte, new) in memory.iter().zip(text.to_bytes_with_nul()) {
        byte.store(*new, Ordering::Relaxed);
    }
}

/// The target's name flips between ours and others.
pub(super) fn flips_target(sandbox: &Sandbox, fstype: &CStr) -> Outcome {
    let memory = bytes(&sandbox.target, sandbox.target.count_bytes() + 64);
    let flip = |turn: usize| {
        overwrite(&memory, if turn.is_multiple_of(8) { &sandbox.target } else { [c"/usr", c"/tmp", c"/"][turn % 3] });
    };
    race(sandbox, flip, || mount_words([at(c"hostile"), at(memory.as_slice()), at(fstype), 0, 0]))
}

/// The flags cannot change, they are in a register; the options can.
pub(super) fn flips_options(sandbox: &Sandbox) -> Outcome {
    let memory = bytes(c"size=1m", 64);
    let flip = |turn: usize| overwrite(&memory, if turn.is_multiple_of(2) { c"size=1m,mode=777" } else { c"source=/etc,fd=3" });
    race(sandbox, flip, || mount_words([at(c"hostile"), at(&*sandbox.target), at(c"tmpfs"), 0, at(memory.as_slice())]))
}

/// The page with the arguments comes and goes.
pub(super) fn unmaps_arguments(sandbox: &Sandbox) -> Outcome {
    let pages = Pages::map(1, 0).expect("a page can be mapped");
    let fstype = pages.put(0, c"proc".to_bytes_with_nul());
    let protect = |turn: usize| {
        let protection = if turn.is_multiple_of(2) { libc::PROT_NONE } else { libc::PROT_READ | libc::PROT_WRITE };
        let _ = sys::call(libc::SYS_mprotect, [pages.start(), sys::PAGE, protection as usize]);
        let _ = sys::call(libc::SYS_madvise, [pages.start(), sys::PAGE, libc::MADV_DONTNEED as usize]);
    };
    let outcome = race(sandbox, protect, || mount_words([at(c"hostile"), at(&*sandbox.target), fstype, 0, 0]));
    broker_must_answer(outcome)
}

/// Threads share the working directory: "." is ours or not, depending on when one looks.
pub(super) fn changes_directory(sandbox: &Sandbox) -> Outcome {
    let places = [c"/usr", &*sandbox.target, c"/tmp", c"/"];
    let go = |turn: usize| {
        let _ = sys::call(libc::SYS_chdir, [at(places[turn % places.len()])]);
    };
    race(sandbox, go, || mount(c"hostile", c".", c"tmpfs", 0, c""))
}

/// A symbolic link that points at ours or elsewhere.
pub(super) fn swaps_link(sandbox: &Sandbox) -> Outcome {
    let dir = scratch_dir("swap");
    let link = dir.join("link");
    let places = [sandbox.target_path(), Path::new("/usr"), Path::new(SCRATCH)];
    let swap = |turn: usize| {
        let next = dir.join("next");
        let _ = symlink(places[turn % places.len()], &next);
        let _ = fs::rename(&next, &link);
    };
    race(sandbox, swap, || mount(c"hostile", &c_path(&link), c"tmpfs", 0, c""))
}

/// A directory of ours and the target exchange names, if the client can do that at all; else a middle component does.
pub(super) fn swaps_directories(sandbox: &Sandbox) -> Outcome {
    let dir = scratch_dir("exchange");
    let (ours, other) = (dir.join("a"), dir.join("b"));
    fs::create_dir_all(other.join("x")).expect("scratch is writable");
    let _ = symlink(sandbox.target_path().parent().unwrap_or(Path::new("/")), &ours);
    let name = sandbox.target_path().file_name().unwrap_or_default();
    fs::create_dir_all(other.join(name)).expect("scratch is writable");
    let here = sys::negative(libc::AT_FDCWD);
    let (first, second) = (c_path(&ours), c_path(&other));
    let exchange = |_| {
        let _ = sys::call(libc::SYS_renameat2, [here, at(&*first), here, at(&*second), libc::RENAME_EXCHANGE as usize]);
        let _ = sys::call(libc::SYS_renameat2, [here, at(&*sandbox.target), here, at(&*second), libc::RENAME_EXCHANGE as usize]);
    };
    race(sandbox, exchange, || mount(c"hostile", &c_path(ours.join(name)), c"tmpfs", 0, c""))
}

/// The directory above the target, which is no mount point in any namespace, exchanges its name with another one that has a target as well. The
/// driver checks the host's mount: if the path was looked up once more, it is not the new filesystem.
pub(super) fn swaps_the_way(sandbox: &Sandbox) -> Outcome {
    let way = sandbox.target_path().parent().unwrap_or(Path::new("/"));
    let decoy = way.with_file_name("decoy");
    let name = sandbox.target_path().file_name().unwrap_or_default();
    let made = fs::create_dir_all(decoy.join(name));
    let here = sys::negative(libc::AT_FDCWD);
    let (first, second) = (c_path(way), c_path(&decoy));
    let exchange = || sys::call(libc::SYS_renameat2, [here, at(&*first), here, at(&*second), libc::RENAME_EXCHANGE as usize]);
    match (exchange(), made) {
        (Err(errno), Err(_)) => return refused(errno.to_string()),
        (Err(errno), Ok(())) => return succeeded(format!("a directory beside the way to the target, but no exchange: {errno}")),
        (Ok(_), _) => {}
    }
    let swap = |_| {
        let _ = exchange();
    };
    let _ = race(sandbox, swap, || mount(c"hostile", &sandbox.target, c"tmpfs", 0, c""));
    succeeded("the way to the target can be exchanged")
}

/// One number, now /dev/fuse, now something else.
pub(super) fn swaps_descriptor(sandbox: &Sandbox) -> Outcome {
    const NUMBER: usize = 60;
    let Ok(device) = fuse::open_device() else { return refused("no /dev/fuse") };
    let others = [c"/dev/null", c"/proc/self/mem", c"/dev/zero"].map(|path| sys::open(path, libc::O_RDWR).ok());
    let options = CString::new(fuse::options(&NUMBER.to_string())).expect("it holds no NUL");
    let swap = |turn: usize| {
        let other = others[turn % others.len()].as_ref().unwrap_or(&device);
        let _ = sys::call(libc::SYS_dup3, [device.as_raw_fd() as usize, NUMBER, 0]);
        let _ = sys::call(libc::SYS_dup3, [other.as_raw_fd() as usize, NUMBER, 0]);
        let _ = sys::call(libc::SYS_close, [NUMBER]);
    };
    let outcome = race(sandbox, swap, || mount(c"hostile", &sandbox.target, c"fuse", 0, &options));
    broker_must_answer(outcome)
}

/// Many threads, each with a proper request: one may win.
pub(super) fn all_at_once(sandbox: &Sandbox) -> Outcome {
    let accepted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                for _ in 0..40 {
                    let answer = mount(c"hostile", &sandbox.target, c"tmpfs", 0, c"");
                    accepted.fetch_add(usize::from(answer.is_ok()), Ordering::Relaxed);
                }
            });
        }
    });
    let accepted = accepted.into_inner();
    match sandbox.forbidden_mounts().as_slice() {
        [] if accepted <= 1 => refused(format!("960 calls, {accepted} accepted")),
        stray => succeeded(format!("{accepted} accepted: {}", stray.join(", "))),
    }
}

/// Requests that can only be refused, as many as the machine makes in four seconds: others must still be served.
pub(super) fn floods(_: &Sandbox) -> Outcome {
    let calls = AtomicUsize::new(0);
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while started.elapsed() < TIME {
                    let _ = mount(c"hostile", c"/", c"proc", super::MS_NOUSER, c"");
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    broker_must_answer(refused(format!("{} calls from 16 threads", calls.into_inner())))
}

/// Callers that are killed at every possible moment of their call.
pub(super) fn killed_while_mounting(sandbox: &Sandbox) -> Outcome {
    for delay in 0..150u64 {
        let Ok(child) = sys::fork() else { break };
        let Some(child) = child else {
            let _ = mount(c"hostile", &sandbox.target, c"tmpfs", 0, c"");
            sys::exit(0);
        };
        thread::sleep(Duration::from_micros(delay * 20));
        let _ = sys::kill(child, libc::SIGKILL);
        let _ = sys::wait(child, 0);
    }
    only_allowed_mounts(sandbox, "150 callers killed")
}

/// A caller whose process turns into another program while the broker works for it.
pub(super) fn execs_while_mounting(sandbox: &Sandbox) -> Outcome {
    let program = c_path(std::env::current_exe().unwrap_or_default());
    for delay in 0..40u64 {
        let Ok(child) = sys::fork() else { break };
        let Some(child) = child else {
            thread::scope(|scope| {
                scope.spawn(|| {
                    loop {
                        let _ = mount(c"hostile", &sandbox.target, c"tmpfs", 0, c"");
                    }
                });
                thread::sleep(Duration::from_micros(delay * 50));
                let arguments = [at(&*program), at(c"list"), 0];
                let _ = sys::call(libc::SYS_close, [1]);
                let _ = sys::call(libc::SYS_execve, [at(&*program), at(&arguments), 0]);
                sys::exit(1)
            })
        };
        let _ = sys::wait(child, 0);
    }
    only_allowed_mounts(sandbox, "40 callers turned into something else")
}

/// A signal every 50 µs: a call that says "interrupted" must not have mounted.
pub(super) fn interrupted_while_mounting(sandbox: &Sandbox) -> Outcome {
    sys::interrupt_on(libc::SIGALRM);
    let interval = [0i64, 50, 0, 50];
    let _ = sys::call(libc::SYS_setitimer, [libc::ITIMER_REAL as usize, at(&interval), 0]);
    let mut interrupted = 0;
    let mut outcome = None;
    for _ in 0..2000 {
        match mount(c"hostile", &sandbox.target, c"tmpfs", 0, c"") {
            Err(Errno(libc::EINTR)) => interrupted += 1,
            Ok(_) => break,
            Err(_) => {}
        }
        if interrupted > 0 && !sandbox.new_mounts().is_empty() {
            outcome = Some(succeeded("the call said EINTR and the mount is there"));
            break;
        }
    }
    let _ = sys::call(libc::SYS_setitimer, [libc::ITIMER_REAL as usize, at(&[0i64; 4]), 0]);
    outcome.unwrap_or_else(|| only_allowed_mounts(sandbox, &format!("{interrupted} calls interrupted")))
}

fn only_allowed_mounts(sandbox: &Sandbox, did: &str) -> Outcome {
    match sandbox.forbidden_mounts().as_slice() {
        [] => broker_must_answer(refused(format!("{did}; nothing but what is allowed is mounted"))),
        stray => succeeded(format!("{did}: {}", stray.join(", "))),
    }
}

/// The outcome, unless the attempt has silenced the broker: then its calls give ENOSYS, or take for ever.
fn broker_must_answer(outcome: Outcome) -> Outcome {
    let started = Instant::now();
    match mount(c"hostile", c"/", c"proc", 0, c"") {
        Ok(_) => succeeded("proc mounted on /"),
        Err(Errno(libc::ENOSYS)) => succeeded("the broker is gone"),
        Err(_) if started.elapsed() > Duration::from_secs(5) => succeeded("the broker takes more than 5 s to answer"),
        Err(_) => outcome,
    }
}
