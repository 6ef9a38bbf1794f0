//! The sandbox's first process, from the fork to the client's execve.
//!
//! It starts as a copy of the launching process, the host's root included, and gives up one thing
//! after the other. The order is forced: mounts need the host's root, the user namespace takes it
//! away, the filter comes after all that it forbids.

use std::ffi::CString;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::process::{Gid, Uid};
use shorefast_sys as sys;
use sys::{Result, call};

use crate::filter;
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
    prepare(processes)?;
    let (orders, descriptors) = talk::take_orders(control.as_fd())?;
    root::fill(&orders, &descriptors.entries)?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    if orders.identity == Identity::UserNamespace {
        // Under its own uid: the kernel charges what happens inside to whoever made the namespace,
        // and the client must not use up what root may have.
        sys::privilege::become_user_with_capabilities(Uid::from_raw(orders.owner), Gid::from_raw(orders.owner))?;
        sys::namespace::unshare_user()?;
    }
    talk::say_ready(control.as_fd())?;
    // A new user namespace starts with a full bounding set, so only now; the launching process is
    // busy with our ids meanwhile.
    sys::privilege::empty_bounding_set()?;
    talk::wait_for_go(control.as_fd())?;

    sys::privilege::drop_groups()?;
    let listener = sys::seccomp::install(&filter::program(orders.sockets))?;
    // It must not stay open here: with nobody listening, later calls fail at once instead of
    // waiting for ever.
    talk::say_filtered(control.as_fd(), &listener)?;
    drop(listener);
    match sys::process::fork_plainly()? {
        None => become_client(control, &orders, &descriptors),
        Some(helper) => {
            let helper = sys::c_string(helper.as_raw_nonzero().to_string())?;
            drop_to(orders.init_id)?;
            let places = [
                (control.as_fd(), sys::shim::CONTROL),
                (descriptors.output_read.as_fd(), sys::shim::OUTPUT),
                (descriptors.ring.as_fd(), sys::shim::RING),
            ];
            sys::shim::become_it(descriptors.program.as_fd(), &[c"init", &helper], &places).map(drop)
        }
    }
}

/// All that is the same for every client: done while the launching process still plans.
fn prepare(processes: Processes) -> Result<()> {
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
    if sys::landlock::can_scope() { sys::landlock::restrict_scope() } else { Ok(()) }
}

fn become_client(control: &OwnedFd, orders: &Orders, descriptors: &Descriptors) -> ! {
    let output = descriptors.output_write.as_fd();
    let prepared = drop_to(orders.client_id).and_then(|()| sys::process::lay_out(&[(output, 1), (output, 2)], None));
    let error = prepared.map_or_else(|error| error, |_| execute(orders));
    talk::say_not_executed(control.as_fd(), &error.to_string());
    sys::process::exit_now(127)
}

/// Like execvp: the first candidate that is there.
fn execute(orders: &Orders) -> sys::Error {
    let strings = |texts: &[Vec<u8>]| texts.iter().map(|text| CString::new(text.as_slice()).unwrap_or_default()).collect::<Vec<_>>();
    let (argv, environment) = (strings(&orders.argv), strings(&orders.environment));
    let mut result = sys::Error::new(format!("{:?}", argv[0]), rustix::io::Errno::NOENT);
    for path in strings(&orders.candidates) {
        result = sys::process::exec(&path, &argv, &environment);
        if result.errno() != rustix::io::Errno::NOENT {
            break;
        }
    }
    result
}

/// Becomes a user without any capability.
fn drop_to(id: u32) -> Result<()> {
    sys::privilege::become_user(Uid::from_raw(id), Gid::from_raw(id))?;
    sys::privilege::drop_capabilities()
}
