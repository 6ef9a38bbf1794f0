//! Doing what the policy allowed: building the superblock, and giving a FUSE client its end.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags};
use rustix::process::{Pid, PidfdGetfdFlags};
use shorefast_sys as sys;
use sys::seccomp::{self, Heard, Notification};

use crate::error::Refusal;
use crate::options::{Fuse, Item};
use crate::policy::{Options, Order};
use crate::view::View;

/// fsconfig takes strings of up to 255 bytes.
const FSCONFIG_LIMIT: usize = 255;

/// Mounts as ordered: shown to the client, and as a detached copy for the host.
pub fn mount(order: &Order, listener: &OwnedFd, call: &Notification, view: &View) -> Result<OwnedFd, Refusal> {
    match &order.options {
        Options::Fuse(fuse) => {
            let device = sys::fuse::open()?;
            let theirs = client_device(call, fuse.fd)?;
            let items: Vec<_> = fuse.rest.iter().cloned().chain([Item::value("fd", device.as_raw_fd())]).collect();
            let copy = superblock(order, &items, view)?;
            connect(&theirs, &device, fuse, listener, call).inspect_err(|_| drop(view.hide()))?;
            Ok(copy)
        }
        Options::Items(items) => superblock(order, items, view),
        Options::Whole(data) => Ok(view.mount_here(&order.source, &order.full_type(), order.flags.word(), data)?),
    }
}

fn superblock(order: &Order, items: &[Item], view: &View) -> Result<OwnedFd, Refusal> {
    let fits = |item: &Item| item.value.as_ref().is_none_or(|value| value.len() <= FSCONFIG_LIMIT);
    if order.source.len() > FSCONFIG_LIMIT || !items.iter().all(fits) {
        let text = |item: &Item| item.value.as_ref().map_or_else(|| item.key.clone(), |value| format!("{}={value}", item.key));
        let data = items.iter().map(text).collect::<Vec<_>>().join(",");
        return Ok(view.mount_here(&order.source, &order.full_type(), order.flags.word(), data.as_bytes())?);
    }
    Ok(view.show(detached(order, items)?.as_fd())?)
}

fn detached(order: &Order, items: &[Item]) -> Result<OwnedFd, Refusal> {
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
            Some(value) => set(&item.key, value.as_bytes())?,
            None => flag(&item.key)?,
        }
    }
    sys::call(|| format!("fsconfig({}, CREATE)", order.fstype), rustix::mount::fsconfig_create(context.as_fd())).map_err(explain)?;
    let mount = rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, order.flags.attributes);
    sys::call(|| format!("fsmount({})", order.fstype), mount).map_err(explain)
}

/// Option values can be passwords, and errors end up in logs: only what cannot be one is shown.
fn redacted(key: &str, value: &[u8]) -> String {
    match key {
        "source" | "subtype" | "fd" | "rootmode" | "user_id" | "group_id" | "size" | "mode" | "vers" | "addr" | "proto" => {
            String::from_utf8_lossy(value).into_owned()
        }
        _ => "…".to_owned(),
    }
}

/// The client's own /dev/fuse. Taken once: what it does with its number from now on is its own
/// problem.
fn client_device(call: &Notification, number: u32) -> Result<OwnedFd, Refusal> {
    let bad = |reason: &str| Refusal::policy(Errno::BADF, format!("the client's fd={number} {reason}"));
    let number = i32::try_from(number).map_err(|_| bad("is out of range"))?;
    let tid = Pid::from_raw(call.tid).ok_or_else(|| bad("belongs to a process that we cannot see"))?;
    let process = sys::process::pidfd_of_thread(tid)?;
    let fd = rustix::process::pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).map_err(|_| bad("is not open"))?;
    if sys::fuse::is_device(fd.as_fd()) { Ok(fd) } else { Err(bad("is not /dev/fuse")) }
}

/// Ties the client's descriptor to the connection that we mounted. FUSE demands that whoever
/// opened the device shares a user namespace with the superblock, which the client does not.
///
/// * From Linux 6.2 a connection can be cloned onto the client's descriptor. It does not matter
///   which process or thread holds it.
/// * Before, our descriptor replaces the one of the calling process. A client that opens the
///   device in one process and mounts in another needs `namespaces = { user = "host" }` there,
///   where cloning always works.
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
