//! The sandbox's first process, from clone(2) until it has started the client and becomes pid 1. The control socket comes in; messages and the seccomp listener go out over it ([`crate::handshake`]).
//!
//! The process starts as a child that shares the launching process's memory ([`sys::one_shot`]) and has the host's root
//! rights, which it gives up step by step. The order is forced: mounting needs the host's root, entering the user
//! namespace removes it, and the filter comes after every call that it forbids.

pub mod control;
pub mod root;
pub mod filter;

use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Gid, Resource, Uid};
use rustix::thread::CapabilitySet;
use shorefast_sys as sys;
use sys::{Result, call};

use crate::child::filter::AbstractSockets;
use crate::joins::Joins;
use crate::orders::{Descriptors, Orders};
use crate::spec::{Capabilities, Identity, ProcessLimits, Processes, Rights, Role, Shape};

/// Never returns: the process becomes pid 1 of the sandbox, or reports an error and exits.
pub fn run(control: &OwnedFd, shape: Shape, small_namespace: Option<&OwnedFd>) -> ! {
    // Close what the launching process has open, such as a lock, a caller's pipe, or its end of the control socket.
    let mut keep = [0, 1, 2, control.as_raw_fd(), small_namespace.map_or(-1, |fd| fd.as_raw_fd())];
    keep.sort_unstable();
    sys::process::close_all_but(&keep);
    // Not dumpable: we share the launching process's memory until pid 1 is executed, and once we change our uid, other
    // processes with that uid could otherwise read it with ptrace.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    if let Err(error) = become_init(control, shape, small_namespace) {
        control::send_failed(control.as_fd(), &error.to_string());
    }
    sys::process::exit_now(1)
}

fn become_init(control: &OwnedFd, shape: Shape, small_namespace: Option<&OwnedFd>) -> Result<()> {
    prepare(shape)?;
    let syslog = root::enter_empty(small_namespace, shape.rights)?;
    control::send_standing(control.as_fd())?;
    // Done before waiting, because the orders take a while to arrive.
    let filter = match shape.rights {
        Rights::All => None,
        Rights::None => Some(give_up_rights()?),
    };
    let (orders, descriptors) = control::take_orders(control.as_fd())?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    limit(orders.process_limits);
    if let Some(joins) = &descriptors.joins {
        join(joins, control, &syslog, &descriptors)?;
    }
    // From here on with the client's uid. The user namespace is created under it as well: the kernel charges what
    // happens inside to the creator's limits, and the client must not use up root's.
    if !matches!(orders.identity, Identity::ContainerRoot | Identity::HostRoot) {
        sys::privilege::become_user_with_capabilities(Uid::from_raw(orders.owner), Gid::from_raw(orders.owner))?;
    }
    // Not later: a container's user namespace may forbid setgroups.
    sys::privilege::have_groups(orders.mark.map(Gid::from_raw).as_slice())?;
    let held = CapabilitySet::from_bits_truncate(orders.held);
    // The bounding set limits what execve can grant; capabilities that this process holds stay for now. It cannot be
    // limited earlier, because entering another user namespace fills it again. In the two cases with a user namespace,
    // the launching process sets up our ID mapping and our source meanwhile.
    match (descriptors.joins.as_ref().and_then(|joins| joins.users.as_ref()), orders.identity) {
        (Some(users), _) => {
            sys::namespace::join(users.as_fd())?;
            sys::privilege::become_user_with_capabilities(Uid::ROOT, Gid::ROOT)?;
            control::send_ready(control.as_fd())?;
            sys::privilege::limit_bounding_set(CapabilitySet::empty())?;
            control::wait_for_go(control.as_fd())?;
        }
        (None, Identity::UserNamespace) => {
            sys::namespace::enter_new_user()?;
            control::send_ready(control.as_fd())?;
            sys::privilege::limit_bounding_set(held)?;
            control::wait_for_go(control.as_fd())?;
        }
        (None, Identity::DedicatedUser | Identity::ContainerRoot) => sys::privilege::limit_bounding_set(CapabilitySet::empty())?,
        (None, Identity::HostRoot) => {}
    }

    match filter {
        None => {
            control::send_ready(control.as_fd())?;
            // Without a filter, nothing else stops the client from mounting before the launching process watches it.
            control::wait_for_go(control.as_fd())?;
        }
        Some((sockets, usual)) => {
            let filter = match (orders.role, orders.capabilities) {
                (Role::Client, Capabilities::None) => usual,
                (Role::Client, pretended) => filter::program(sockets, pretended),
                (Role::Service, _) => filter::service_program(),
                (Role::Answerer, _) => filter::answerer_program(),
            };
            let listener = sys::seccomp::install(&filter)?;
            // The listener must not stay open here: once the last copy is closed, forwarded calls fail at once instead
            // of blocking for ever.
            control::send_filtered(control.as_fd(), &listener)?;
        }
    }
    let helper = match start_client(control, &orders, &descriptors.output_write) {
        Ok(helper) => sys::c_string(helper.to_string())?,
        Err(error) => {
            control::send_not_executed(control.as_fd(), &error);
            // If we exit with unread data in the socket, the peer gets ECONNRESET instead of our last message. So read
            // it.
            let _ = control::take_program(control.as_fd());
            sys::process::exit_now(127)
        }
    };
    let (program, recipe) = control::take_program(control.as_fd())?;
    if !held.is_empty() {
        // They are the client's only.
        sys::privilege::limit_bounding_set(CapabilitySet::empty())?;
    }
    sys::privilege::become_user(Uid::from_raw(orders.init_id), Gid::from_raw(orders.init_id))?;
    sys::privilege::drop_capabilities()?;
    let mut arguments = vec![c"init", &*helper];
    let mut places = vec![
        (control.as_fd(), sys::shim::CONTROL),
        (descriptors.output_read.as_fd(), sys::shim::OUTPUT),
        (descriptors.ring.as_fd(), sys::shim::RING),
        (syslog.as_fd(), sys::shim::SYSLOG),
    ];
    if let Some(joins) = &descriptors.joins {
        arguments.push(sys::shim::FOLLOW);
        places.push((joins.process.as_fd(), sys::shim::FOLLOWED));
    }
    places.extend(recipe.as_ref().map(|recipe| (recipe.as_fd(), sys::shim::RECIPE_OF_INIT)));
    sys::shim::become_it(program.as_fd(), &arguments, &places).map(drop)
}

/// Joins a container's namespaces. Its pid namespace is not among them, so its processes cannot inspect this one. Even
/// so, everything of the host is dropped first: root and mount namespace are our own since [`root::enter_empty`]; here
/// we close the caller's standard descriptors and the namespace that the root was made from. Capabilities are dropped
/// only afterwards, because setns(2) needs them.
fn join(joins: &Joins, control: &OwnedFd, syslog: &OwnedFd, descriptors: &Descriptors) -> Result<()> {
    let Descriptors { output_read, output_write, ring, .. } = descriptors;
    let used = [control, syslog, output_read, output_write, ring].into_iter().chain(joins.descriptors());
    let mut keep: Vec<_> = used.map(|fd| fd.as_raw_fd()).collect();
    keep.sort_unstable();
    sys::process::close_all_but(&keep);
    sys::process::take_standard_numbers()?;
    joins.namespaces.iter().try_for_each(|namespace| sys::namespace::join(namespace.as_fd()))
}

/// The process attributes that every client starts with.
fn prepare(shape: Shape) -> Result<()> {
    // A new session: the caller's terminal is out of reach, and signals to the caller's process group do not arrive.
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

/// Must run before the process changes its uid: the kernel counts processes from the first one with that uid.
fn limit(limits: ProcessLimits) {
    for (resource, limit) in [(Resource::Nproc, limits.processes), (Resource::Data, limits.memory_bytes)] {
        sys::inherited::set_limit(resource, limit, limit);
    }
}

/// Drops the rights that the following steps do not need. Returns the filter for the usual client, which is installed
/// last.
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

/// Starts the helper: the first candidate that exists, as execvp would. This process already has the client's uid; the
/// helper has no capabilities but those over its source, unless it runs as the host's root.
fn start_client(control: &OwnedFd, orders: &Orders, output: &OwnedFd) -> std::result::Result<u32, String> {
    let argv = c_strings(orders.argv.iter().cloned())?;
    let environment = c_strings(orders.environment.iter().map(|(name, value)| [name, &b"="[..], value].concat()))?;
    let candidates = c_strings(orders.candidates.iter().cloned())?;
    let started = sys::process::vfork(|| {
        sys::process::lay_out(&[(output.as_fd(), 1), (output.as_fd(), 2)], None)?;
        if orders.identity != Identity::HostRoot {
            // execve would clear all of them except those that our caller left inheritable.
            sys::privilege::have_capabilities(CapabilitySet::from_bits_truncate(orders.held))?;
        }
        if !orders.is_met_halfway() {
            // As late as possible: the launching process is still writing the client's files.
            control::wait_for_go(control.as_fd())?;
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
