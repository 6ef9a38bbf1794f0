//! Ends every process of a client's dedicated user. [`end`] starts a short-lived process of ours, which runs
//! [`end_this`].

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use shorefast_sys as sys;

use crate::spec::Ids;

/// Kills every process of a dedicated user, with a separate process, because that has to change its uid.
pub fn end(ids: Ids) {
    let uid = ids.dedicated().to_string();
    // Not by path: the executable may have been replaced by a newer version, or deleted.
    let _ = Command::new("/proc/self/exe").arg0("shorefast").args([END_USER, &uid]).stdin(Stdio::null()).status();
}

/// The internal command that [`end`] runs.
pub const END_USER: &str = "__end-user";

/// The body of [`END_USER`].
pub fn end_this(uid: u32) -> sys::Result<()> {
    sys::privilege::become_user(rustix::process::Uid::from_raw(uid), rustix::process::Gid::from_raw(uid))?;
    sys::process::kill_all_of_this_user();
    Ok(())
}
