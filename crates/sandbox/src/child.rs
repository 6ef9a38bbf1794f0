//! The sandbox's first process, from the fork to the client's execve.
//!
//! It starts as an offshoot of the launching process, the host's root included, and gives up one thing
//! after the other. The order is forced: mounts need the host's root, the user namespace takes it
//! away, the filter comes after all that it forbids.

use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Gid, Resource, Uid};
use shorefast_sys as sys;
use sys::{Result, call};

use crate::container::Joins;
use crate::filter::{self, AbstractSockets};
use crate::handshake;
use crate::orders::{Descriptors, Orders};
use crate::root;
use crate::spec::{Capabilities, Identity, ProcessLimits, Processes, Rights, Role, Shape};

/// Never returns: ends as pid 1 of the sandbox, or with a word about why not.
pub fn run(control: &OwnedFd, shape: Shape, small_namespace: Option<&OwnedFd>) -> ! {
    // What the launching process has open is not ours to hold: a lock, a caller's pipe, its end of our talk.
    let mut keep = [0, 1, 2, control.as_raw_fd(), small_namespace.map_or(-1, |fd| fd.as_raw_fd())];
    keep.sort_unstable();
    sys::process::close_all_but(&keep);
    // Nor is its memory for anybody to look at, whosever user we become: we share it until pid 1 is executed.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    if let Err(error) = become_init(control, shape, small_namespace) {
        handshake::send_failed(control.as_fd(), &error.to_string());
    }
    sys::process::exit_now(1)
}

fn become_init(control: &OwnedFd, shape: Shape, small_namespace: Option<&OwnedFd>) -> Result<()> {
    prepare(shape)?;
    root::enter_empty(small_namespace, shape.rights)?;
    handshake::send_standing(control.as_fd())?;
    // The orders take their time.
    let filter = match shape.rights {
        Rights::All => None,
        Rights::None => Some(give_up_rights()?),
    };
    let (orders, descriptors) = handshake::take_orders(control.as_fd())?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    limit(orders.process_limits);
    if let Some(joins) = &descriptors.joins {
        join(joins, control, &descriptors)?;
    }
    // The client's user from here on. A user namespace is made under it, too: the kernel charges
    // what happens inside to whoever made it, and the client must not use up what root may have.
    if !matches!(orders.identity, Identity::ContainerRoot | Identity::HostRoot) {
        sys::privilege::become_user_with_capabilities(Uid::from_raw(orders.owner), Gid::from_raw(orders.owner))?;
    }
    // Not later: a container's user namespace may forbid it.
    sys::privilege::have_groups(orders.mark.map(Gid::from_raw).as_slice())?;
    // The bounding set limits what can be had by executing a program; what this process holds, it keeps for now. Not emptied before:
    // in another user namespace one starts with a full one again. There, the launching process is busy with our ids and our
    // source meanwhile.
    match (descriptors.joins.as_ref().and_then(|joins| joins.users.as_ref()), orders.identity) {
        (Some(users), _) => {
            sys::namespace::join(users.as_fd())?;
            sys::privilege::become_user_with_capabilities(Uid::ROOT, Gid::ROOT)?;
            handshake::send_ready(control.as_fd())?;
            sys::privilege::empty_bounding_set()?;
            handshake::wait_for_go(control.as_fd())?;
        }
        (None, Identity::UserNamespace) => {
            sys::namespace::enter_new_user()?;
            handshake::send_ready(control.as_fd())?;
            sys::privilege::empty_bounding_set()?;
            handshake::wait_for_go(control.as_fd())?;
        }
        (None, Identity::DedicatedUser | Identity::ContainerRoot) => sys::privilege::empty_bounding_set()?,
        (None, Identity::HostRoot) => {}
    }

    match filter {
        None => {
            handshake::send_ready(control.as_fd())?;
            // Nothing else keeps it from mounting before somebody looks.
            handshake::wait_for_go(control.as_fd())?;
        }
        Some((sockets, usual)) => {
            let filter = match (orders.role, orders.capabilities) {
                (Role::Client, Capabilities::None) => usual,
                (Role::Client, pretended) => filter::program(sockets, pretended),
                (Role::Service, _) => filter::service_program(),
                (Role::Answerer, _) => filter::answerer_program(),
            };
            let listener = sys::seccomp::install(&filter)?;
            // It must not stay open here: with nobody listening, later calls fail at once instead of
            // waiting for ever.
            handshake::send_filtered(control.as_fd(), &listener)?;
        }
    }
    let helper = match start_client(control, &orders, &descriptors.output_write) {
        Ok(helper) => sys::c_string(helper.to_string())?,
        Err(error) => {
            handshake::send_not_executed(control.as_fd(), &error);
            // What is left unread would take our own last words away from who sent it.
            let _ = handshake::take_program(control.as_fd());
            sys::process::exit_now(127)
        }
    };
    let program = handshake::take_program(control.as_fd())?;
    sys::privilege::become_user(Uid::from_raw(orders.init_id), Gid::from_raw(orders.init_id))?;
    sys::privilege::drop_capabilities()?;
    let mut arguments = vec![c"init", &*helper];
    let mut places = vec![
        (control.as_fd(), sys::shim::CONTROL),
        (descriptors.output_read.as_fd(), sys::shim::OUTPUT),
        (descriptors.ring.as_fd(), sys::shim::RING),
    ];
    if let Some(joins) = &descriptors.joins {
        arguments.push(sys::shim::FOLLOW);
        places.push((joins.process.as_fd(), sys::shim::FOLLOWED));
    }
    sys::shim::become_it(program.as_fd(), &arguments, &places).map(drop)
}

/// Becomes part of a container. None of its namespaces is one from which this process could be looked at: that would be a pid namespace. All the
/// same, what is of the host is gone before: the root and the mount namespace are our own since [`root::enter_empty`], and here go
/// the caller's standard descriptors and what the root was made from. The rights go next; to join takes them.
fn join(joins: &Joins, control: &OwnedFd, descriptors: &Descriptors) -> Result<()> {
    let Descriptors { output_read, output_write, ring, .. } = descriptors;
    let used = [control, output_read, output_write, ring].into_iter().chain(joins.descriptors());
    let mut keep: Vec<_> = used.map(|fd| fd.as_raw_fd()).collect();
    keep.sort_unstable();
    sys::process::close_all_but(&keep);
    sys::process::take_standard_numbers()?;
    joins.namespaces.iter().try_for_each(|namespace| sys::namespace::join(namespace.as_fd()))
}

/// A process as every client's is.
fn prepare(shape: Shape) -> Result<()> {
    // A session of its own: no terminal of the caller can be reached, no signal of its group arrives.
    call(|| "setsid()".into(), rustix::process::setsid())?;
    sys::process::reset_signals();
    rustix::process::umask(rustix::fs::Mode::empty());
    if shape.processes == Processes::Host {
        let own = Some(rustix::process::getpid());
        call(|| "prctl(PR_SET_CHILD_SUBREAPER)".into(), rustix::process::set_child_subreaper(own))?;
    }
    sys::inherited::reset_limits();
    Ok(())
}

/// Before the client's user exists: the kernel counts its processes from the first one.
fn limit(limits: ProcessLimits) {
    for (resource, limit) in [(Resource::Nproc, limits.processes), (Resource::Data, limits.memory_bytes)] {
        sys::inherited::set_limit(resource, limit, limit);
    }
}

/// As far as what comes next can do without them. Gives the filter that comes last, for the usual client.
fn give_up_rights() -> Result<(AbstractSockets, Vec<libc::sock_filter>)> {
    sys::privilege::no_new_privileges()?;
    let sockets = if sys::landlock::can_scope() {
        sys::landlock::restrict_scope()?;
        AbstractSockets::Scoped
    } else {
        AbstractSockets::Denied
    };
    Ok((sockets, filter::program(sockets, Capabilities::None)))
}

/// Starts the helper, the first candidate that is there, as execvp would. This process is the
/// client's user already, and the helper's has no capability left unless it is to have all.
fn start_client(control: &OwnedFd, orders: &Orders, output: &OwnedFd) -> std::result::Result<u32, String> {
    let argv = c_strings(orders.argv.iter().cloned())?;
    let environment = c_strings(orders.environment.iter().map(|(name, value)| [name, &b"="[..], value].concat()))?;
    let candidates = c_strings(orders.candidates.iter().cloned())?;
    let started = sys::process::vfork(|| {
        sys::process::lay_out(&[(output.as_fd(), 1), (output.as_fd(), 2)], None)?;
        if orders.identity != Identity::HostRoot {
            // execve would take away all but what a caller of ours left inheritable.
            sys::privilege::drop_capabilities()?;
        }
        if !orders.is_met_halfway() {
            // As late as possible: the launching process still puts its files there.
            handshake::wait_for_go(control.as_fd())?;
        }
        let mut why_not = sys::Error::new(format!("{:?} on the PATH inside", argv[0]), Errno::NOENT);
        for path in candidates.iter().filter(|path| rustix::fs::stat(path.as_c_str()).is_ok()) {
            let Err(error) = sys::process::exec(path, &argv, &environment);
            why_not = error;
        }
        Err(why_not)
    });
    started.map(|child| child.pid.as_raw_nonzero().get().unsigned_abs()).map_err(|error| error.to_string())
}

fn c_strings(texts: impl Iterator<Item = Vec<u8>>) -> std::result::Result<Vec<CString>, String> {
    texts.map(|text| CString::new(text).map_err(|error| error.to_string())).collect()
}
