//! Processes that outlive the client and go on attacking.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::fuse::{self, Manners};
use crate::outcome::{Outcome, refused};
use crate::rows::privilege;
use crate::sandbox::{Sandbox, mount, umount};
use crate::sys::{self, Answer};

/// Starts a process that the runner's clean-up does not reach, and comes back when it is out of reach.
pub(super) fn leave_behind(work: impl FnOnce()) -> Answer<()> {
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

/// A client that asks for more before its mount is complete loses it. These rows are about afterwards: the mount has left our sight, which
/// a kernel filesystem's may be too quick for.
fn wait_for_the_end(sandbox: &Sandbox) {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(10) && !sandbox.new_mounts().is_empty() {
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process that outlives the client and goes on asking: after the end no request may succeed. It notes a success in
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

/// A process that forks and exits all the time, so that a killer that lists processes first is late.
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
