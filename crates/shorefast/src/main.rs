//! argv in, exit code out.

use std::io::Write as _;
use std::process::ExitCode;

use shorefast::front::called_as::{self, CalledAs};
use shorefast::{front, report};
use shorefast_sys::one_shot::Allocator;

/// musl's allocator returns every page to the kernel at once and faults it in again: a quarter of a millisecond per mount.
#[cfg(target_env = "musl")]
type Usual = dlmalloc::GlobalDlmalloc;
#[cfg(not(target_env = "musl"))]
type Usual = std::alloc::System;

#[cfg(target_env = "musl")]
const USUAL: Usual = dlmalloc::GlobalDlmalloc;
#[cfg(not(target_env = "musl"))]
const USUAL: Usual = std::alloc::System;

#[global_allocator]
static ALLOCATOR: Allocator<Usual> = Allocator(USUAL);

fn main() -> ExitCode {
    let code = work();
    if code == ExitCode::SUCCESS && std::io::stdout().flush().is_ok() {
        // Nothing is left to do; the runtime would still unmap a stack, for which the kernel interrupts every CPU that we use (TLB
        // shootdown).
        shorefast_sys::process::exit_now(0);
    }
    code
}

fn work() -> ExitCode {
    // Before any input of the caller is read: definitions, options and images decide what root does, and a set-uid caller is not root.
    if shorefast_sys::privilege::is_borrowed() {
        report::say(
            "shorefast: this program is installed set-uid, set-gid or with file capabilities, so every user who calls it would act as root\n\
             hint: remove that (chmod u-s,g-s; setcap -r), and call it as root, or through sudo, systemd or /etc/fstab",
        );
        return ExitCode::from(report::exit_code(shorefast_engine::Kind::Usage));
    }
    let arguments: Vec<_> = std::env::args_os().collect();
    // Before any fork of this process: a secret on the command line is readable by other users.
    front::redact_argv::hide_secrets(&arguments);
    // Under any name: in a container, the work is done on the host.
    if let Some(code) = front::enter_host::go(&arguments) {
        return code;
    }
    // Fronts are not inlined, so that each pays only for its own stack.
    match called_as::of(arguments.first().map(|name| name.as_os_str()).unwrap_or_default()) {
        CalledAs::Mounter => front::mounter::run(&arguments),
        CalledAs::Mount(fstype) => front::mount_helper::run(&fstype, &arguments),
        CalledAs::Umount(fstype) => front::umount_helper::run(&fstype, &arguments),
        // Before clap: internal child processes, which should start fast and are not part of the interface.
        CalledAs::Shorefast => match front::internal::dispatch(&arguments) {
            Some(code) => code,
            None => match front::complete::answer(&arguments) {
                Some(code) => code,
                None => front::cli::run(arguments).unwrap_or_else(|error| report::failure(&error)),
            },
        },
    }
}
