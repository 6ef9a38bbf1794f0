//! In: an order that the policy allowed. Out: the superblock, mounted, and for FUSE the connection on the client's descriptor.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags};
use shorefast_sys as sys;
use sys::bounded_call::{self, Bounded};
use sys::seccomp::{self, Heard, Notification};

use crate::descriptor;
use crate::error::Refusal;
use crate::options::{self, Fuse, Item};
use crate::policy::{Options, Order};
use crate::view::View;

/// fsconfig takes strings of up to 255 bytes.
const FSCONFIG_LIMIT: usize = 255;

/// Mounts as ordered, by the deadline: attached in the client's namespace, and as a detached copy for the host.
///
/// A kernel filesystem contacts its server while it is created, and a server that does not answer blocks the calling process: those two
/// calls go through `sys::bounded_call`.
pub fn mount(order: &Order, listener: &OwnedFd, call: &Notification, view: &View, deadline: Instant) -> Result<OwnedFd, Refusal> {
    match &order.options {
        Options::Fuse(fuse) => {
            let device = sys::fuse::open()?;
            let theirs = client_device(call, listener, fuse.fd)?;
            let items: Vec<_> = fuse.rest.iter().cloned().chain([Item::value("fd", device.as_raw_fd())]).collect();
            let copy = superblock(order, &items, view, deadline)?;
            connect(&theirs, &device, fuse, listener, call).inspect_err(|_| drop(view.hide()))?;
            Ok(copy)
        }
        Options::Items(items) => superblock(order, items, view, deadline),
    }
}

fn whole(order: &Order, data: &[u8], view: &View, deadline: Instant) -> Result<OwnedFd, Refusal> {
    match view.mount_here(&order.source, &order.full_type(), order.flags.word(), data, (!order.is_fuse()).then_some(deadline))? {
        Bounded::Done(mount) => Ok(mount),
        Bounded::Failed(error) => Err(error.into()),
        Bounded::TimedOut => Err(Refusal::no_answer(&order.full_type())),
    }
}

fn superblock(order: &Order, items: &[Item], view: &View, deadline: Instant) -> Result<OwnedFd, Refusal> {
    let fits = |item: &Item| item.value.as_ref().is_none_or(|value| value.len() <= FSCONFIG_LIMIT);
    if order.source.len() > FSCONFIG_LIMIT || !items.iter().all(fits) {
        return whole(order, &options::join(&order.fstype, items), view, deadline);
    }
    Ok(view.show(detached(order, items, deadline)?.as_fd())?)
}

fn detached(order: &Order, items: &[Item], deadline: Instant) -> Result<OwnedFd, Refusal> {
    let open = rustix::mount::fsopen(order.fstype.as_str(), FsOpenFlags::FSOPEN_CLOEXEC);
    let context = sys::call(|| format!("fsopen({:?})", order.fstype), open)?;
    let explain = |error: sys::Error| Refusal::kernel(&error, &sys::mount::context_log(context.as_fd()));
    let set = |key: &str, value: &[u8]| {
        let text = || format!("fsconfig({}, {key}={})", order.fstype, redacted(key, value));
        sys::call(text, rustix::mount::fsconfig_set_string(context.as_fd(), key, value)).map_err(explain)
    };
    let flag = |key: &str| {
        let result = rustix::mount::fsconfig_set_flag(context.as_fd(), key);
        sys::call(|| format!("fsconfig({}, {key})", order.fstype), result).map_err(explain)
    };

    if !order.source.is_empty() {
        set("source", &order.source)?;
    }
    if let Some(subtype) = &order.subtype {
        set("subtype", subtype.as_bytes())?;
    }
    order.flags.superblock.iter().try_for_each(|name| flag(name))?;
    for item in items {
        match &item.value {
            Some(value) => set(&item.key, value)?,
            None => flag(&item.key)?,
        }
    }
    if order.is_fuse() {
        // Contacts no server: the client gets FUSE_INIT later. And the descriptor number is one of this process.
        sys::call(|| "fsconfig(fuse, CREATE)".into(), rustix::mount::fsconfig_create(context.as_fd())).map_err(explain)?;
    } else {
        match bounded_call::create(&order.fstype, context.as_fd(), deadline) {
            Bounded::Done(()) => {}
            Bounded::Failed(error) => return Err(explain(error)),
            Bounded::TimedOut => return Err(Refusal::no_answer(&order.full_type())),
        }
    }
    let mount = rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, order.flags.attributes);
    sys::call(|| format!("fsmount({})", order.fstype), mount).map_err(explain)
}

/// Option values can be passwords, and errors end up in logs: show only values that cannot be one.
fn redacted(key: &str, value: &[u8]) -> String {
    match key {
        "source" | "subtype" | "fd" | "rootmode" | "user_id" | "group_id" | "size" | "mode" | "vers" | "addr" | "proto" => {
            String::from_utf8_lossy(value).into_owned()
        }
        _ => "…".to_owned(),
    }
}

/// The client's /dev/fuse.
fn client_device(call: &Notification, listener: &OwnedFd, number: u32) -> Result<OwnedFd, Refusal> {
    let bad = |reason: &str| Refusal::policy(Errno::BADF, format!("the client's fd={number} {reason}"));
    let fd = descriptor::of(call, listener.as_fd(), number.into())?.ok_or_else(|| bad("is not open"))?;
    if sys::fuse::is_device(fd.as_fd()) { Ok(fd) } else { Err(bad("is not /dev/fuse")) }
}

/// Ties the client's descriptor to the connection that we mounted. FUSE requires that the device was opened in the user namespace of the
/// superblock, which is not the client's.
///
/// * From Linux 6.2 a connection can be cloned onto the client's descriptor. It does not matter which process or thread holds it.
/// * Before, our descriptor replaces the one of the calling process. A client that opens the device in one process and mounts in
///   another needs `namespaces = { user = "host" }` there, where cloning always works.
fn connect(theirs: &OwnedFd, ours: &OwnedFd, fuse: &Fuse, listener: &OwnedFd, call: &Notification) -> Result<(), Refusal> {
    match sys::fuse::clone_connection(theirs.as_fd(), ours) {
        Ok(()) => Ok(()),
        Err(error) if error.errno() == Errno::INVAL => match seccomp::replace_fd(listener.as_fd(), call.id, fuse.fd, ours.as_fd())? {
            Heard::Yes => Ok(()),
            Heard::Gone => Err(Refusal::policy(Errno::INTR, "the client ended while it mounted")),
        },
        Err(error) => Err(error.into()),
    }
}
