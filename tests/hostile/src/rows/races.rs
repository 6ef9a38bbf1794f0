//! Arguments that change while the broker looks at them, callers that vanish, and servers that stall whoever waits for them.
//!
//! What a race got mounted is judged by the sandbox's own mount table here and by the host's in the driver.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::fuse::{self, Manners};
use crate::outcome::{Outcome, first_harm, harm_if_ok, refused, succeeded};
use crate::rows::privilege;
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

/// The directory above the target, which is a mount point for nobody, exchanges its name with another one that has a target as well. What the
/// host got is for the driver to see: if it was looked up by its path once more, it is not the new filesystem.
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

/// Starts a process that the runner's clean-up does not reach, and comes back when it is out of reach.
fn leave_behind(work: impl FnOnce()) -> Answer<()> {
    let (mut reader, writer) = std::io::pipe()?;
    if sys::fork()?.is_none() {
        drop(reader);
        let _ = sys::call(libc::SYS_setsid, []);
        drop(writer);
        work();
        sys::exit(0);
    }
    drop(writer);
    // The end of the file is the sign.
    std::io::Read::read(&mut reader, &mut [0])?;
    Ok(())
}

/// A FUSE mount at the target whose server lives on in a process that nothing of this program waits for.
fn leave_server(sandbox: &Sandbox, manners: Manners) -> Outcome {
    let Ok(device) = fuse::open_device() else { return refused("no /dev/fuse") };
    if let Err(errno) = fuse::mount_device(sandbox, &device) {
        return refused(errno.to_string());
    }
    match leave_behind(|| fuse::serve(device, manners)) {
        Ok(()) => refused(format!("a server that is {manners:?} is left to the driver")),
        Err(errno) => refused(errno.to_string()),
    }
}

pub(super) fn never_answers(sandbox: &Sandbox) -> Outcome {
    leave_server(sandbox, Manners::Silent)
}

pub(super) fn answers_garbage(sandbox: &Sandbox) -> Outcome {
    leave_server(sandbox, Manners::Garbled)
}

pub(super) fn answers_only_init(sandbox: &Sandbox) -> Outcome {
    leave_server(sandbox, Manners::OnlyInit)
}

/// Serves a trap at the target and gives back the way to it.
fn set_trap(sandbox: &Sandbox) -> Answer<std::path::PathBuf> {
    let device = fuse::open_device()?;
    fuse::mount_device(sandbox, &device)?;
    thread::spawn(move || fuse::serve(device, Manners::Trap));
    Ok(sandbox.target_path().join(fuse::TRAP))
}

/// Arguments in a mapped file of our own FUSE mount: reading them asks us, and we do not answer. If the broker waits for them, so does
/// this row; then the driver's `--timeout` must end both.
pub(super) fn arguments_in_a_trap(sandbox: &Sandbox) -> Outcome {
    let trap = match set_trap(sandbox) {
        Ok(trap) => trap,
        Err(errno) => return refused(errno.to_string()),
    };
    let file = match File::open(&trap) {
        Ok(file) => file,
        Err(error) => return refused(format!("the trap cannot be opened: {error}")),
    };
    let words = [0, sys::PAGE, libc::PROT_READ as usize, libc::MAP_PRIVATE as usize, file.as_raw_fd() as usize, 0];
    let memory = match sys::call(libc::SYS_mmap, words) {
        Ok(memory) => memory,
        Err(errno) => return refused(format!("the trap cannot be mapped: {errno}")),
    };
    let mounted = mount_words([at(c"hostile"), at(&*sandbox.target), memory, 0, memory]);
    first_harm([harm_if_ok(mounted, "mounted what the server never said"), at_most_our_own(sys::call(libc::SYS_umount2, [memory, 0]))])
}

/// A target below our own FUSE mount: looking it up asks us.
pub(super) fn target_in_a_trap(sandbox: &Sandbox) -> Outcome {
    let Ok(device) = fuse::open_device() else { return refused("no /dev/fuse") };
    if let Err(errno) = fuse::mount_device(sandbox, &device) {
        return refused(errno.to_string());
    }
    thread::spawn(move || fuse::serve(device, Manners::OnlyInit));
    let below = c_path(sandbox.target_path().join("below/the/trap"));
    let mounted = mount(c"hostile", &below, c"tmpfs", 0, c"");
    first_harm([harm_if_ok(mounted, "mounted below the trap"), at_most_our_own(umount(&below, 0))])
}

/// What a client with `source = "path"` is shown.
const SOURCE: &str = "/shorefast/source";

/// Arguments in a mapped file of somebody else's filesystem, which is none of the broker's, and never answers.
pub(super) fn arguments_in_a_foreign_file(sandbox: &Sandbox) -> Outcome {
    let Ok(file) = File::open(Path::new(SOURCE).join(fuse::TRAP)) else { return refused("there is no such source") };
    let words = [0, sys::PAGE, libc::PROT_READ as usize, libc::MAP_PRIVATE as usize, file.as_raw_fd() as usize, 0];
    let memory = match sys::call(libc::SYS_mmap, words) {
        Ok(memory) => memory,
        Err(errno) => return refused(format!("the trap cannot be mapped: {errno}")),
    };
    first_harm([
        harm_if_ok(mount_words([at(c"hostile"), at(&*sandbox.target), memory, 0, 0]), "mounted what nobody said"),
        at_most_our_own(sys::call(libc::SYS_umount2, [memory, 0])),
    ])
}

/// A target in there, by its name.
pub(super) fn target_in_a_foreign_directory(_: &Sandbox) -> Outcome {
    let below = c_path(Path::new(SOURCE).join("below/the/trap"));
    harm_if_ok(mount(c"hostile", &below, c"tmpfs", 0, c""), "mounted below the trap")
}

/// A target in there, from where the caller is.
pub(super) fn target_from_a_foreign_directory(_: &Sandbox) -> Outcome {
    if let Err(errno) = sys::call(libc::SYS_chdir, [at(&*c_path(SOURCE))]) {
        return refused(format!("there is no such source: {errno}"));
    }
    let outcome = harm_if_ok(mount(c"hostile", c"below/the/trap", c"tmpfs", 0, c""), "mounted below the trap");
    let _ = sys::call(libc::SYS_chdir, [at(c"/")]);
    outcome
}

/// A descriptor whose attributes never come, in place of /dev/fuse.
pub(super) fn foreign_descriptor(sandbox: &Sandbox) -> Outcome {
    let file = match sys::open(&c_path(Path::new(SOURCE).join("stale")), libc::O_RDONLY) {
        Ok(file) => file,
        Err(errno) => return refused(format!("there is no such source: {errno}")),
    };
    let options = CString::new(fuse::options(&file.as_raw_fd().to_string())).expect("it holds no NUL");
    harm_if_ok(mount(c"hostile", &sandbox.target, c"fuse", 0, &options), "mounted a file as /dev/fuse")
}

/// The broker does not read what a server unmounts: there is only its own mount. What matters is that the call comes back.
fn at_most_our_own<T>(unmounted: Result<T, Errno>) -> Outcome {
    match unmounted {
        Ok(_) => refused("at most our own mount went"),
        Err(errno) => refused(errno.to_string()),
    }
}

/// A client that asks for more before its mount is complete loses it. These rows are about afterwards: the mount has left our sight, which
/// a kernel filesystem's may be too quick for.
fn wait_for_the_end(sandbox: &Sandbox) {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(10) && !sandbox.new_mounts().is_empty() {
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process that outlives the client and goes on asking: after the end nobody may say yes. It notes a success in
/// the mount itself, as `late`, and the driver looks.
pub(super) fn mounts_after_the_end(sandbox: &Sandbox) -> Outcome {
    if let Err(errno) = mount(c"hostile", &sandbox.target, c"tmpfs", 0, c"") {
        return refused(errno.to_string());
    }
    let Ok(late) = File::create(sandbox.target_path().join("late")) else {
        return refused("the mount is not visible inside");
    };
    let left = leave_behind(|| {
        wait_for_the_end(sandbox);
        for _ in 0..40 {
            thread::sleep(Duration::from_millis(50));
            let calls = [
                mount(c"late", &sandbox.target, c"tmpfs", 0, c""),
                mount(c"late", c"/usr", c"proc", 0, c""),
                umount(&sandbox.target, libc::MNT_DETACH),
            ];
            if calls.iter().any(Result::is_ok) {
                let _ = std::io::Write::write_all(&mut &late, b"succeeded");
            }
        }
    });
    refused(format!("a process that goes on asking is left to the driver: {left:?}"))
}

/// A server that does its duty, as it must live as long as its mount, and meanwhile tries what the client could not.
pub(super) fn attacks_while_serving(sandbox: &Sandbox) -> Outcome {
    let Ok(device) = fuse::open_device() else { return refused("no /dev/fuse") };
    if let Err(errno) = fuse::mount_device(sandbox, &device) {
        return refused(errno.to_string());
    }
    let left = leave_behind(|| {
        thread::scope(|scope| {
            scope.spawn(|| {
                wait_for_the_end(sandbox);
                fuse::HARM.store(attack(sandbox), Ordering::Relaxed);
                fuse::OVER.store(true, Ordering::Release);
            });
            fuse::serve(device, Manners::Trap);
        });
    });
    refused(format!("a server that attacks is left to the driver: {left:?}"))
}

/// Was there harm within two seconds?
fn attack(sandbox: &Sandbox) -> bool {
    let identity = |path: &str| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let inside = sys::open(&sandbox.target, libc::O_PATH | libc::O_DIRECTORY);
    let allowed = [identity("/"), inside.as_ref().ok().and_then(|fd| identity(&format!("/proc/self/fd/{}", fd.as_raw_fd())))];
    (0..40).any(|_| {
        thread::sleep(Duration::from_millis(50));
        let mounted =
            [mount(c"late", &sandbox.target, c"tmpfs", 0, c""), mount(c"late", c"/usr", c"proc", 0, c""), umount(c"/", libc::MNT_DETACH)];
        // The way up from the mount, whose place in our sight has gone meanwhile.
        let _ = inside.as_ref().map(|fd| sys::call(libc::SYS_fchdir, [fd.as_raw_fd() as usize]));
        (0..64).for_each(|_| drop(std::env::set_current_dir("..")));
        // The kernel has room for a listener of our own once the broker's is closed.
        let listens = matches!(privilege::installs_a_listener(), Outcome::Succeeded(_));
        mounted.iter().any(Result::is_ok) || listens || !allowed.contains(&identity("."))
    })
}

/// A process that holds on to the mount (open file, working directory) and runs for ever.
pub(super) fn holds_the_mount(sandbox: &Sandbox) -> Outcome {
    if let Err(errno) = mount(c"hostile", &sandbox.target, c"tmpfs", 0, c"") {
        return refused(errno.to_string());
    }
    let held = File::create(sandbox.target_path().join("held"));
    let left = leave_behind(|| {
        for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGPIPE] {
            sys::ignore(signal);
        }
        let _ = std::env::set_current_dir(sandbox.target_path());
        // Long enough for any driver, and an end for a machine where nothing stops it.
        thread::sleep(Duration::from_secs(600));
        drop(held);
    });
    refused(format!("a process that holds the mount is left to the driver: {left:?}"))
}

/// A process that forks and exits all the time, so that whoever lists processes before killing them is late.
pub(super) fn outruns_the_killer(sandbox: &Sandbox) -> Outcome {
    if let Err(errno) = mount(c"hostile", &sandbox.target, c"tmpfs", 0, c"") {
        return refused(errno.to_string());
    }
    let left = leave_behind(|| {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(120) {
            if let Ok(Some(_)) = sys::fork() {
                sys::exit(0);
            }
            thread::sleep(Duration::from_micros(300));
        }
    });
    refused(format!("a process that keeps forking is left to the driver: {left:?}"))
}
