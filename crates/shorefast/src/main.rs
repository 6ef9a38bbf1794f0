//! argv in, exit code out.

use std::io::Write as _;
use std::process::ExitCode;

use shorefast::front::called_as::{self, CalledAs};
use shorefast::{front, report};
use shorefast_sys::arena::Allocator;

/// musl's own gives every page back to the kernel at once, and asks for it again: a quarter of a millisecond per mount.
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
        // Nothing is left to do, and the runtime would still take a stack away, for which the kernel stops all processors that we use.
        shorefast_sys::process::exit_now(0);
    }
    code
}

fn work() -> ExitCode {
    // Before anything of the caller's is looked at: definitions, options and images decide what root does, and such a caller is not root.
    if shorefast_sys::privilege::is_borrowed() {
        report::say(
            "shorefast: this program is installed set-uid, set-gid or with file capabilities, so that whoever calls it would be root\n\
             hint: take that away (chmod u-s,g-s; setcap -r), and call it as root, or let sudo, systemd or /etc/fstab do so",
        );
        return ExitCode::from(report::exit_code(shorefast_engine::Kind::Usage));
    }
    let arguments: Vec<_> = std::env::args_os().collect();
    // First of all, and before any copy of this process: what a caller wrote here, others could read.
    front::redact_argv::hide_secrets(&arguments);
    // Whatever it is called as, in a container it works on the host.
    if let Some(code) = front::enter_host::go(&arguments) {
        return code;
    }
    // Fronts are not inlined: what one of them needs of the stack, the others do not pay for.
    match called_as::of(arguments.first().map(|name| name.as_os_str()).unwrap_or_default()) {
        CalledAs::Mounter => front::mounter::run(&arguments),
        CalledAs::Mount(fstype) => front::mount_helper::run(&fstype, &arguments),
        CalledAs::Umount(fstype) => front::umount_helper::run(&fstype, &arguments),
        // Before clap: children of ours, which should start fast and are nobody else's business.
        CalledAs::Shorefast => match front::internal::dispatch(&arguments) {
            Some(code) => code,
            None => front::cli::run(arguments).unwrap_or_else(|error| report::failure(&error)),
        },
    }
}
