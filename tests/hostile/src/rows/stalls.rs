//! FUSE servers and files that stall every process that waits for them.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::thread;

use crate::fuse::{self, Manners};
use crate::outcome::{Outcome, first_harm, harm_if_ok, refused};
use crate::rows::lasts::leave_behind;
use crate::sandbox::{Sandbox, c_path, mount, mount_words, umount};
use crate::sys::{self, Answer, Errno, at};

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

/// Arguments in a mapped file of another user's filesystem, which the broker does not serve, and which never answers.
pub(super) fn arguments_in_a_foreign_file(sandbox: &Sandbox) -> Outcome {
    let Ok(file) = File::open(Path::new(SOURCE).join(fuse::TRAP)) else { return refused("there is no such source") };
    let words = [0, sys::PAGE, libc::PROT_READ as usize, libc::MAP_PRIVATE as usize, file.as_raw_fd() as usize, 0];
    let memory = match sys::call(libc::SYS_mmap, words) {
        Ok(memory) => memory,
        Err(errno) => return refused(format!("the trap cannot be mapped: {errno}")),
    };
    first_harm([
        harm_if_ok(mount_words([at(c"hostile"), at(&*sandbox.target), memory, 0, 0]), "mounted with arguments that cannot be read"),
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
