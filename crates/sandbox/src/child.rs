//! The sandbox's first process, from the fork to the client's execve.
//!
//! It starts as a copy of the launching process, the host's root included, and gives up one thing
//! after the other. The order is forced: mounts need the host's root, the user namespace takes it
//! away, the filter comes after all that it forbids.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Gid, Uid};
use shorefast_sys as sys;
use sys::{Result, call};

use crate::filter::{self, AbstractSockets};
use crate::orders::{Descriptors, Orders};
use crate::root;
use crate::spec::{Identity, Processes};
use crate::talk;

/// Never returns: ends as pid 1 of the sandbox, or with a word about why not.
pub fn run(control: &OwnedFd, processes: Processes) -> ! {
    if let Err(error) = become_init(control, processes) {
        talk::say_failed(control.as_fd(), &error.to_string());
    }
    sys::process::exit_now(1)
}

fn become_init(control: &OwnedFd, processes: Processes) -> Result<()> {
    let filter = prepare(processes)?;
    let (orders, descriptors) = talk::take_orders(control.as_fd())?;
    root::fill(&orders, &descriptors.entries)?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    // The client's user from here on. A user namespace is made under it, too: the kernel charges
    // what happens inside to whoever made it, and the client must not use up what root may have.
    sys::privilege::become_user_with_capabilities(Uid::from_raw(orders.owner), Gid::from_raw(orders.owner))?;
    if orders.identity == Identity::UserNamespace {
        sys::namespace::unshare_user()?;
    }
    talk::say_ready(control.as_fd())?;
    // A new user namespace starts with a full bounding set, so only now; the launching process is
    // busy with our ids meanwhile.
    sys::privilege::empty_bounding_set()?;
    talk::wait_for_go(control.as_fd())?;

    sys::privilege::drop_groups()?;
    let listener = sys::seccomp::install(&filter)?;
    // It must not stay open here: with nobody listening, later calls fail at once instead of
    // waiting for ever.
    talk::say_filtered(control.as_fd(), &listener)?;
    drop(listener);
    let helper = match start_client(&orders, &descriptors) {
        Ok(helper) => sys::c_string(helper.to_string())?,
        Err(error) => {
            talk::say_not_executed(control.as_fd(), &error);
            sys::process::exit_now(127)
        }
    };
    sys::privilege::become_user(Uid::from_raw(orders.init_id), Gid::from_raw(orders.init_id))?;
    sys::privilege::drop_capabilities()?;
    let places = [
        (control.as_fd(), sys::shim::CONTROL),
        (descriptors.output_read.as_fd(), sys::shim::OUTPUT),
        (descriptors.ring.as_fd(), sys::shim::RING),
    ];
    sys::shim::become_it(descriptors.program.as_fd(), &[c"init", &helper], &places).map(drop)
}

/// All that is the same for every client: done while the launching process still plans. Gives the
/// filter that comes last.
fn prepare(processes: Processes) -> Result<Vec<libc::sock_filter>> {
    // What the caller left open is not ours to pass on.
    sys::process::close_all_on_exec()?;
    // A session of its own: no terminal of the caller can be reached, no signal of its group arrives.
    call(|| "setsid()".into(), rustix::process::setsid())?;
    sys::process::reset_signals();
    rustix::process::umask(rustix::fs::Mode::empty());
    if processes == Processes::Host {
        let own = Some(rustix::process::getpid());
        call(|| "prctl(PR_SET_CHILD_SUBREAPER)".into(), rustix::process::set_child_subreaper(own))?;
    }
    // Not 0: the kernel runs a core pattern's program all the same. 1 is what it takes for no.
    let no_core = rustix::process::Rlimit { current: Some(1), maximum: Some(1) };
    call(|| "setrlimit(RLIMIT_CORE)".into(), rustix::process::setrlimit(rustix::process::Resource::Core, no_core))?;
    root::enter_empty()?;
    sys::privilege::no_new_privileges()?;
    if sys::landlock::can_scope() {
        sys::landlock::restrict_scope()?;
        Ok(filter::program(AbstractSockets::Scoped))
    } else {
        Ok(filter::program(AbstractSockets::Denied))
    }
}

/// Starts the helper, the first candidate that is there, as execvp would. It is not forked off but
/// spawned (vfork): this process is the client's user already, and execve takes away every
/// capability from a process with an empty bounding set.
fn start_client(orders: &Orders, descriptors: &Descriptors) -> std::result::Result<u32, String> {
    let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let output = || descriptors.output_write.try_clone().map(Stdio::from).map_err(|error| error.to_string());
    let name = text(&orders.argv[0]);
    let mut reason = format!("{name:?}: not found on the image's PATH");
    for path in orders.candidates.iter().map(|path| text(path)).filter(|path| Path::new(path).exists()) {
        let mut command = Command::new(&path);
        command.arg0(&name).args(orders.argv[1..].iter().map(|word| text(word))).env_clear();
        command.envs(orders.environment.iter().map(|(name, value)| (text(name), text(value))));
        command.stdin(Stdio::null()).stdout(output()?).stderr(output()?);
        match command.spawn() {
            Ok(child) => return Ok(child.id()),
            Err(error) => reason = format!("{path:?}: {error}"),
        }
    }
    Err(reason)
}
